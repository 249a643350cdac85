"""Every guard, and what the code is without it: the simulation notices each (`README.md` has the table)."""

from typing import Final

from tests.simulation.mutate import LUA, Mutation


def _lua(*changes: tuple[str, str]) -> Mutation:
    return Mutation(LUA, (), changes)


def _of(module: str, *changes: tuple[str, str]) -> Mutation:
    return Mutation(module, changes)


APPENDS: Final = "libs.voting.protocol.shared_steps"
CASTING: Final = "libs.voting.protocol.casting"
REMOVAL: Final = "libs.voting.protocol.removal"
STALE: Final = "libs.voting.protocol.shared_steps"
RUN: Final = "libs.voting.protocol_run"
BATCHING: Final = "libs.voting.batching"
WAITING: Final = "libs.voting.partition_waiting"
CACHE: Final = "libs.voting.contest_cache"
PURCHASES: Final = "services.projector.purchase_steps"
PURCHASE: Final = "libs.contracts.purchase_events"
PURCHASE_FOLD: Final = "libs.views.purchases.purchase_fold"
SERVICE: Final = "libs.voting.service"
FENCING: Final = "libs.projection.fencing"
CLOSING: Final = "services.projector.closing_manager"
CATALOGUE: Final = "libs.projection.record_projections"
WORKER: Final = "libs.projection.partition_worker"
VOTES: Final = "libs.projection.votes_projection"
READS: Final = "services.ingestion.voter_reads"
REPLAY: Final = "libs.replay.generation_fold"
TARGETS: Final = "libs.replay.targets"
SWAP: Final = "libs.replay.swap"
JOB: Final = "libs.replay.job"
VERIFICATION: Final = "libs.replay.verification"
REPORTING: Final = "libs.voting.source_reports"

PROTOCOL: Final = {
    "no confirmation": _of(APPENDS, ("confirmed = yield Confirm(event.incarnation)", "confirmed = True")),
    "confirmed before the append": _of(
        APPENDS,
        ("appended = yield Append", "early = yield Confirm(event.incarnation)\n    appended = yield Append"),
        ("confirmed = yield Confirm(event.incarnation)", "confirmed = early"),
    ),
    "a lost confirmation confirms": _of(APPENDS, ("confirmed is True", "confirmed is not False")),
    "a record in doubt is given up": _of(
        APPENDS,
        ("if isinstance(appended, NotAppended)", "if not isinstance(appended, Appended)"),
        ("        return appended\n", "        return NotAppended('gone')\n"),
    ),
    "what another request recorded under the id is one's own": _of(
        CASTING, ("if recorded.content == command.content:", "if True:")
    ),
    "a vote that a fence ended is accepted": _of(
        CASTING,
        (
            "fenced = True  # its record can never count, so it may be reserved again\n"
            "                        continue",
            "return Accepted(command, answer.terms, True, event.receipt, partition, len(event.receipt))",
        ),
    ),
    "accepted by the own grant where another record was folded": _of(
        CASTING,
        (
            "return (yield from _repeated(command, recorded.known, receipts, partition, answer.joined))",
            "return Accepted(command, answer.terms, True, event.receipt, partition, recorded.known.offset)",
        ),
    ),
    "a joiner records limits of its own": _of(
        CASTING,
        (
            "event = cast_of(command, answer, receipts.sign(answer.terms.accepted_at))",
            "event = cast_of(command, answer, receipts.sign(answer.terms.accepted_at))\n"
            "                if answer.joined:\n"
            "                    import dataclasses\n"
            "                    event = dataclasses.replace(event, max_participant=0, max_contest=0)",
        ),
    ),
    "an inexact offset is trusted": _of(
        APPENDS, ("appended.offset if appended.exact else None", "appended.offset")
    ),
    "votes of a request have no order": _of(
        SERVICE, ("partial(outcomes.set, at), before)", "partial(outcomes.set, at))")
    ),
    "a vote is reserved before one that takes more calls": _of(
        RUN, ("if before is None or 0 < before.place < MOST_TOGETHER:", "if True:")
    ),
    "what was loaded before the answer is put in force": _of(
        CACHE,
        ("return (await entry.loads.next()).contest", "return (entry.known or await entry.loads.next()).contest"),
    ),
    "a voided vote counts as removed": _of(
        REMOVAL, ("if contest is None or status is not VoteStatus.VOIDED", "if True")
    ),
    "a voided vote counts as removed once in doubt": _of(
        REMOVAL,
        ("UNDECIDED = None, VoteStatus.COUNTED, VoteStatus.VOIDED", "UNDECIDED = None, VoteStatus.COUNTED"),
    ),
    "a removal that a fence ended is done": _of(REMOVAL, ("and not is_removed(recorded)", "and False")),
    "a pending vote needs no removal": _of(
        REMOVAL,
        (
            "case NotFolded():",
            "case NotFolded():\n                return Removed(partition, None)\n            case 0:",
        ),
    ),
}

MANAGERS: Final = {
    "no fence": _of(
        FENCING,
        (
            "return not state.open or is_in_the_future(state, now) or is_overdue",
            "return is_in_the_future(state, now) or is_overdue",
        ),
    ),
    "no fence for overdue reservations": _of(
        FENCING, ("is_in_the_future(state, now) or is_overdue", "is_in_the_future(state, now)")
    ),
    "a clock that was wrong is kept": _of(
        FENCING, ("return state.clock > max(state.now, now) + CLOCK_TOLERANCE_S * 1_000_000", "return False")
    ),
    "a purchase that is undecided is refused": _of(
        PURCHASES, ("if casts and (gone or error.code not in UNDECIDED):", "if casts:")
    ),
    "settled before its markers are folded": _of(CLOSING, ("if not missing:", "if True:")),
    "fenced while the fold lags": _of(
        FENCING,
        ("suspected_end is not None and state.position.offset >= suspected_end", "suspected_end is not None"),
    ),
    "a fence does not ask for the catalogue's ends": _of(
        FENCING, ("        await self._views.need(partition, fence, wait.ends)\n", "")
    ),
    "marked while votes are pending": _of(CLOSING, ("return state.pending == 0", "return True")),
    "marked behind a shut gate": _of(CLOSING, ("return state.open and (sent is", "return (sent is")),
    "closed before the end by a partition's clock": _of(
        CLOSING, ("(now, *(state.now for state in states))", "(now,)")
    ),
    "closed with another end": _of(
        CLOSING, ("return not current.closed and current.finishes == end", "return True")
    ),
    "marked before a reopening is in force": _of(
        CLOSING, ("return state.reopened < contest.reopened", "return False")
    ),
    "a change is folded before it is in force": _of(
        CATALOGUE, ("            await self._raise_config(versions)\n", "            pass\n")
    ),
    "a change is folded where a partition is away": _of(
        CATALOGUE,
        ("for group in groups.values())", "for group in groups.values()), return_exceptions=True"),
        (
            "for error in (error for errors in replies for error in errors if error is not None):",
            "for error in ():",
        ),
    ),
    "a gap is folded over": _of(
        WORKER,
        ("if first > self._next and self._gaps < GAPS_TOLERATED:", "if False:"),
        ("        check_contiguous(", "        0 and check_contiguous("),
    ),
    "a view that went back is not noticed": _of(
        WORKER, ("if stored != self.position and not is_new:", "if False:")
    ),
}

PAID: Final = "services.projector.uncounted_purchases"
INTERFACE: Final = "libs.projection.projection_interface"

CHANGES: Final = {
    "a deleted contest takes votes": _of(
        CATALOGUE,
        ("if not isinstance(event, Undecodable)", "if not isinstance(event, Undecodable | RecordDeleted)"),
    ),
    "votes for whom nobody can vote stay paid": _of(
        PAID, ("if refusal is not None and has_cast:", "if refusal is not None and False:")
    ),
    "votes that count again stay unpaid": _of(
        PAID, ("if refusal is None and has_uncounted:", "if refusal is None and False:")
    ),
    "a purchase of a lost secret is refused": _of(
        PURCHASES,
        ("error.code not in UNDECIDED)", "error.code not in UNDECIDED or error.code == 'purchase_unreadable')"),
    ),
    "a change of a newer version is passed over": _of(
        INTERFACE, ("if isinstance(event, UnknownEvent):", "if False:")
    ),
    "an event of a newer version is passed over": _of(
        VOTES, ("return items[:at], NewerEvent.of(self.topic, partition, item[OFFSET], item[2])", "continue")
    ),
}
"""Guards of deletions, of rejected participants and of two versions of the events."""

ANSWERS: Final = {
    "a pending vote is said to be none": _of(
        READS, ("        if state.pending:\n            raise LedgerCatchingUp(UNDECIDED, retry_after_s=1)\n", "")
    ),
    "a vote behind a shut gate is said to be none": _of(
        READS,
        (
            "        if not state.progress.open:\n"
            "            raise LedgerCatchingUp(RECOVERING, retry_after_s=1)\n"
            "        raise NotFound",
            "        raise NotFound",
        ),
    ),
}

SERVERS: Final = {
    "no incarnation in the fold": _lua(("if n ~= state.fence then", "if false then")),
    "no run id": _lua(("open = v[1] == 'open' and v[2] == run,", "open = v[1] == 'open',")),
    "pending outlives the fence": _lua(("call('UNLINK', base .. ':pending', base .. ':due')", "")),
    "no dedup": _lua(("if standing.records ~= '' and c:find(voter, standing, digest) then", "if false then")),
    "no compare-and-set": _lua(
        (
            "if offset ~= tonumber(args[2]) or (log ~= '' and log ~= args[1]) then",
            "if log ~= '' and log ~= args[1] then",
        )
    ),
    "a joiner goes by its own limits": _lua(
        (
            "p[P_CONFIG], p[P_MAX_P],\n    p[P_MAX_C],",
            "p[P_CONFIG], kind == 1 and 0 or p[P_MAX_P],\n    p[P_MAX_C],",
        )
    ),
    "confirm whatever the gate": _lua(
        (
            "if not gate.open or gate.n ~= tonumber(incarnation) then return 0 end\n    call('HINCRBY'",
            "call('HINCRBY'",
        )
    ),
    "released under any incarnation": _lua(
        ("if not gate.open or gate.n ~= tonumber(args[4]) then return 0 end", "if not gate.open then return 0 end")
    ),
    "any configuration admits": _lua(
        ("if c.in_force ~= version then return { R_STALE, c.in_force, gate.n } end", "")
    ),
    "a projector's old version comes into force": _lua(("elseif in_force == UNLIMITED then", "elseif false then")),
    "a worker's early word comes into force": _lua(
        ("if reached < tonumber(call('HGET', base .. ':needs', place) or 0) then return -1 end", "")
    ),
    "a version below the floor comes into force": _lua(("or version < floor then return 0", "then return 0")),
    "configurations outlive the fence": _lua(
        ("call('UNLINK', base .. ':config', base .. ':floors', base .. ':needs')", "")
    ),
    "a voter's clock stands still": _lua(
        ("return math.max(microseconds(), gate.clock + 1)", "return microseconds()")
    ),
    "a shut gate admits": _lua(
        ("for i = 1, #requests do replies[i] = { R_SHUT } end\n      return pack(replies)", "")
    ),
    "fresh in any run": _lua(
        (
            "call('HGET', base .. ':generations', 'fresh') == run end",
            "call('HGET', base .. ':generations', 'fresh') end",
        )
    ),
    "fresh before the log's end": _lua(
        ("or tonumber(offset) < tonumber(args[3]) then return 0 end", "then return 0 end")
    ),
    "a fence keeps the clock": _lua(("if gate.forget_clock then", "if false then")),
    "a fence of a forgotten past ends reservations": _lua(
        ("(after == UNLIMITED or after == state.fence)", "true")
    ),
    "an attempt gives back what another one holds": _lua(("if others > 0 and not removed then", "if false then")),
    "an id uses no more of its address than at first": _lua(
        ("math.max(0, args[4] - had)", "(had > 0 and 0 or tonumber(args[4]))")
    ),
    "reopened before the mark": _lua(
        ("if reopened > 0 and c:reopened() < reopened then return { R_SHUT } end  -- a mark", "-- a mark")
    ),
    "removed from under its replacement": _lua(
        ("if replaced_soon(c, standing, list, digest) then return pack({ M_PENDING }) end", "")
    ),
    "replaces what is being removed": _lua(("if use.by_digest[REMOVAL .. held] then return { R_SHUT } end", "")),
    "reservations of replacements weigh nothing": _lua(
        ("taken[place] = taken[place] or weight", "taken[place] = 0")
    ),
}

GENERATIONS: Final = {
    "a view that is ahead of the live one is swapped in": _lua(("(offset > live_offset and not relaid)", "false")),
    "what was swapped out is not folded any more": _lua(
        (
            "if row.state == FOLLOWING or row.state == KEPT then\n        following",
            "if row.state == FOLLOWING then\n        following",
        )
    ),
    "what was swapped out is not kept": _lua(
        ("keep(base, all.live, { state = KEPT, schema = all.schema or schema, since = seconds() })", "")
    ),
    "what was kept before stays at a swap": _lua(
        ("if other == number or its.stored == KEPT then", "if other == number then")
    ),
    "a view follows before it has reached the live one": _lua(
        ("(log == live_log or live_log == '') and offset >= live_offset then", "true then")
    ),
    "a view that is ahead folds again what it has": _lua(
        ("local its = { from = offset,", "local its = { from = range.from,")
    ),
    "views expire before their time": _lua(("now - row.since >= tonumber(args[1])", "true")),
    "a rollback does not renew what is kept": _of(
        SWAP, ("if not await generations.renew(partition, kept):", "if False:")
    ),
    "only what has not expired is rolled back": _of(
        SWAP,
        (
            "if (kept := former(one)) is None:",
            "if (kept := former(one)) is None:\n                continue\n            if False:",
        ),
    ),
    "a view that went back is waited for": _of(
        REPLAY,
        (
            "            raise self._went_back(partition, behind) from None\n\n    async def _keep_up",
            "            return False\n\n    async def _keep_up",
        ),
    ),
    "what only a rebuilt catalogue has is not put in force": _of(
        JOB, ("await self._target.before_overtaking(self._deployment, partition, passed)", "pass")
    ),
    "a rebuilt catalogue is swapped in wherever it is": _of(
        JOB, ("accept=accept, at=position.offset)", "accept=accept)")
    ),
    "nobody folds what replaces another layout": _of(
        JOB, ("if found[one].live.schema != found[one].schema]", "if False]")
    ),
    "a gate stays open while the layout changes": _lua(("if relaid or (gate.open", "if (gate.open")),
    "views of another layout are folded": _lua(
        ("local state = row[2] == schema and row[1] or BROKEN", "local state = row[1]")
    ),
    "views of another layout are compared": _of(
        VERIFICATION, ("if found[partition].live.schema == found[partition].schema]", "]")
    ),
    "what was dropped is resumed": _of(TARGETS, ("begun - broken - gone", "begun - broken")),
    "what is broken is resumed": _of(
        TARGETS,
        ("if one.state in (State.BUILDING, State.FOLLOWING)}", "if one.state is not State.KEPT}"),
        ("begun - broken - gone", "begun - gone"),
    ),
}
"""Guards of replays, swaps and rollbacks."""

REPORTS: Final = {
    "a report counts twice": _lua(("if c:has_report(field) then return false end", "")),
    "a report after the close counts": _lua(
        ("if closing_of(s, c.top.cells[ROW_REOPENED]) > 0 then\n    c:own", "if false then\n    c:own")
    ),
    "a report after the close is accepted": _of(REPORTING, ("        if state.late:\n", "        if False:\n")),
    "another report under the id is accepted": _of(
        REPORTING, ("if state.content != report.content:", "if False:")
    ),
    "a source is closed with its contest": _of(
        CLOSING, ("until = closing.end + (0 if source.retired else grace_us)", "until = closing.end")
    ),
    "a source is closed by a late clock": _of(
        CLOSING, ("            if state.now < until:", "            if _now() < until:")
    ),
    "a decrease counts at once": _lua(("elseif reported[1] < f[1] and not decreases then", "elseif false then")),
}
"""Guards of the reports of external sources."""

RULES: Final = {
    "no limit of a participant": _lua(
        ("elseif form ~= BALLOT and exceeds(used_p + weight, max_p) then", "elseif false then")
    ),
    "no limit of a contest": _lua(("elseif exceeds(used_c + weight, max_c) then", "elseif false then")),
    "admitted after the end": _lua(
        ("now >= till) then return { R_NOT_RUNNING, now } end", "false) then return { R_NOT_RUNNING, now } end")
    ),
    "a refused purchase keeps its vote id": _of(
        PURCHASE, ("or not self.taken_back", "or (self.status is PurchaseStatus.REFUNDED and not self.taken_back)")
    ),
    "a refunded purchase keeps its votes": _of(
        PURCHASE, ("or not self.taken_back", "or (self.status is PurchaseStatus.REFUSED and not self.taken_back)")
    ),
    "a cast purchase is not refunded": _of(
        PURCHASE_FOLD,
        (
            "    if known.status is PurchaseStatus.REFUNDED:\n        return None",
            "    if known.status is not PurchaseStatus.RECORDED:\n        return None",
        ),
    ),
    "a refunded purchase is cast": _of(
        PURCHASE_FOLD,
        (
            "case PurchaseCast():\n            if known.status is PurchaseStatus.RECORDED:",
            "case PurchaseCast():\n            if True:",
        ),
    ),
    "a replaced vote leaves its figures": _lua(
        ("move_choices(c, standing, replaced, -1, counted and -1 or 0)", "")
    ),
    "a voter's next plain vote counts the voter again": _lua(("key == by_row then in_row", "false then in_row")),
    "a removed vote keeps its slot": _lua(("if slots[i] == digest then", "if false then")),
    "a replacement takes a period of its own": _lua(("vote.epoch = replaced.epoch", "")),
    "the sums of the former period are merged": _lua(
        ("epoch < standing.epoch - 1 end", "epoch < standing.epoch end")
    ),
    "a period begins while a vote of the last but one is pending": _lua(
        ("if source == FREE and use.oldest < epoch - 1 then return { R_SHUT } end", "")
    ),
    "a late mark closes what is being reopened": _lua(("math.abs(where[at]) >= seq", "where[at] >= seq")),
    "closed while something is pending": _lua(("pending = pending + 1", "pending = 0")),
    "reservations of replacements weigh as the others": _lua(("then weight = 0 end", "then weight = 1 end")),
    "voiding gives the allowance back": _lua(
        ("move_contest(c, standing, vote, 0, by)", "move_contest(c, standing, vote, by, by)")
    ),
    "an operation voids again and again": _lua(("if operations[i] == operation then return false end", "")),
    "an operation restores what another one voided": _lua(
        ("if operations[#operations] ~= operation then return false end", "")
    ),
    "what is not voided is restored": _lua(("~= from then return false end", "== LATE then return false end")),
    "voids at once after the close": _lua(
        ("return c:void_later(voter .. digest .. 'V', offset, restored, operation)", "")
    ),
    "a voided vote cannot be removed": _lua(
        ("if status ~= COUNTED and status ~= VOIDED then", "if status ~= COUNTED then")
    ),
    "a voter takes back what was voided": _lua(("(refund or find_pending(list, REMOVAL .. digest))", "true")),
}
"""Rules of the ledger and of the count."""

MUTATIONS: Final = PROTOCOL | MANAGERS | CHANGES | ANSWERS | SERVERS | GENERATIONS | REPORTS | RULES
SEEDS: Final = {
    "no confirmation": 313,
    "confirmed before the append": 1014,
    "a lost confirmation confirms": 315,
    "a record in doubt is given up": 0,
    "what another request recorded under the id is one's own": 2401,
    "a vote that a fence ended is accepted": 3,
    "accepted by the own grant where another record was folded": 9311,
    "a joiner records limits of its own": 2,
    "an inexact offset is trusted": 95,
    "votes of a request have no order": 101,
    "a vote is reserved before one that takes more calls": 101,
    "what was loaded before the answer is put in force": 403,
    "a voided vote counts as removed": 9,
    "a voided vote counts as removed once in doubt": 313,
    "a removal that a fence ended is done": 313,
    "a pending vote needs no removal": 3,
    "no fence": 0,
    "no fence for overdue reservations": 928,
    "a clock that was wrong is kept": 725,
    "a purchase that is undecided is refused": 305,
    "settled before its markers are folded": 26,
    "fenced while the fold lags": 191,
    "a fence does not ask for the catalogue's ends": 627,
    "marked while votes are pending": 26,
    "marked behind a shut gate": 46,
    "closed before the end by a partition's clock": 14,
    "closed with another end": 82,
    "marked before a reopening is in force": 25,
    "a change is folded before it is in force": 8,
    "a change is folded where a partition is away": 167,
    "a gap is folded over": 2801,
    "a view that went back is not noticed": 3,
    "a deleted contest takes votes": 102,
    "votes for whom nobody can vote stay paid": 269,
    "votes that count again stay unpaid": 1327,
    "a purchase of a lost secret is refused": 849,
    "a change of a newer version is passed over": 34,
    "an event of a newer version is passed over": 34,
    "a pending vote is said to be none": 108,
    "a vote behind a shut gate is said to be none": 38,
    "no incarnation in the fold": 315,
    "no run id": 194,
    "pending outlives the fence": 928,
    "no dedup": 0,
    "no compare-and-set": 3,
    "a joiner goes by its own limits": 2,
    "confirm whatever the gate": 199,
    "released under any incarnation": 3202,
    "any configuration admits": 8,
    "a projector's old version comes into force": 536,
    "a worker's early word comes into force": 627,
    "a version below the floor comes into force": 59,
    "configurations outlive the fence": 70,
    "a voter's clock stands still": 13,
    "a shut gate admits": 194,
    "fresh in any run": 143,
    "fresh before the log's end": 143,
    "a fence keeps the clock": 725,
    "a fence of a forgotten past ends reservations": 275,
    "an attempt gives back what another one holds": 503,
    "an id uses no more of its address than at first": 1155,
    "reopened before the mark": 25,
    "removed from under its replacement": 16,
    "replaces what is being removed": 1,
    "reservations of replacements weigh nothing": 448,
    "a view that is ahead of the live one is swapped in": 225,
    "what was swapped out is not folded any more": 29,
    "what was swapped out is not kept": 345,
    "what was kept before stays at a swap": 321,
    "a view follows before it has reached the live one": 1215,
    "a view that is ahead folds again what it has": 909,
    "views expire before their time": 345,
    "a rollback does not renew what is kept": 2116,
    "only what has not expired is rolled back": 1622,
    "a view that went back is waited for": 1586,
    "what only a rebuilt catalogue has is not put in force": 98,
    "a rebuilt catalogue is swapped in wherever it is": 98,
    "nobody folds what replaces another layout": 1465,
    "a gate stays open while the layout changes": 1317,
    "views of another layout are folded": 47,
    "views of another layout are compared": 22,
    "what was dropped is resumed": 747,
    "what is broken is resumed": 47,
    "a report counts twice": 41,
    "a report after the close counts": 41,
    "a report after the close is accepted": 41,
    "another report under the id is accepted": 19,
    "a source is closed with its contest": 41,
    "a source is closed by a late clock": 294,
    "a decrease counts at once": 37,
    "no limit of a participant": 4,
    "no limit of a contest": 194,
    "admitted after the end": 26,
    "a refused purchase keeps its vote id": 314,
    "a refunded purchase keeps its votes": 45,
    "a cast purchase is not refunded": 45,
    "a refunded purchase is cast": 184,
    "a replaced vote leaves its figures": 5,
    "a voter's next plain vote counts the voter again": 2,
    "a removed vote keeps its slot": 0,
    "a replacement takes a period of its own": 16,
    "the sums of the former period are merged": 12,
    "a period begins while a vote of the last but one is pending": 42,
    "a late mark closes what is being reopened": 226,
    "closed while something is pending": 26,
    "reservations of replacements weigh as the others": 547,
    "voiding gives the allowance back": 3,
    "an operation voids again and again": 559,
    "an operation restores what another one voided": 182,
    "what is not voided is restored": 3,
    "voids at once after the close": 538,
    "a voided vote cannot be removed": 607,
    "a voter takes back what was voided": 938,
}
"""A seed that notices each."""
