"""Every guard, and what the code is without it: the simulation notices each (`README.md` has the table)."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.simulation.mutate import LUA, Mutation


def _of(module: str, seed: int) -> Callable[..., Mutation]:
    """Return a maker of a mutation from texts of the module, each followed by its replacement."""
    return lambda *texts: Mutation(seed, module, tuple(zip(texts[::2], texts[1::2], strict=True)))


_lua = partial(_of, LUA)

APPENDS: Final = "libs.voting.protocol.shared_steps"
GROUPS: Final = "libs.voting.group_commit"
CASTING: Final = "libs.voting.protocol.casting"
REMOVAL: Final = "libs.voting.protocol.removal"
PURCHASES: Final = "services.projector.purchase_steps"
PURCHASE: Final = "libs.contracts.purchase_events"
PURCHASE_FOLD: Final = "libs.views.purchases.purchase_fold"
FENCING: Final = "libs.projection.fencing"
CLOSING: Final = "services.projector.closing_manager"
CATALOGUE: Final = "libs.projection.record_projections"
WORKER: Final = "libs.projection.partition_worker"
READS: Final = "services.ingestion.voter_reads"
TARGETS: Final = "libs.replay.targets"
SWAP: Final = "libs.replay.swap"
JOB: Final = "libs.replay.job"
REPORTING: Final = "libs.voting.source_reports"
PAID: Final = "services.projector.uncounted_purchases"

MUTATIONS: Final = {
    # guards of the protocol of a vote
    "no confirmation": _of(APPENDS, 313)("confirmed = yield Confirm(event.incarnation)", "confirmed = True"),
    "confirmed before the append": _of(APPENDS, 1014)(
        "appended = yield Append",
        "early = yield Confirm(event.incarnation)\n    appended = yield Append",
        "confirmed = yield Confirm(event.incarnation)",
        "confirmed = early",
    ),
    "a lost confirmation confirms": _of(APPENDS, 315)("confirmed is True", "confirmed is not False"),
    "a record in doubt is given up": _of(APPENDS, 11)(
        "if isinstance(appended, NotAppended)",
        "if not isinstance(appended, Appended)",
        "        return appended\n",
        "        return NotAppended('gone')\n",
    ),
    "what another request recorded under the id is one's own": _of(CASTING, 2954)(
        "if recorded.content == command.content:", "if True:"
    ),
    "a vote that a fence ended is accepted": _of(CASTING, 32)(
        "fenced = True  # its record can never count, so it may be reserved again\n"
        "                        continue",
        "return Accepted(command, answer.terms, True, event.receipt, partition, len(event.receipt))",
    ),
    "accepted by the own grant where another record was folded": _of(CASTING, 9311)(
        "return (yield from _repeated(command, recorded.known, receipts, partition, answer.joined))",
        "return Accepted(command, answer.terms, True, event.receipt, partition, recorded.known.offset)",
    ),
    "a joiner records limits of its own": _of(CASTING, 15)(
        "event = cast_of(command, answer, receipts.sign(answer.terms.accepted_at))",
        "event = cast_of(command, answer, receipts.sign(answer.terms.accepted_at))\n"
        "                if answer.joined:\n"
        "                    import dataclasses\n"
        "                    event = dataclasses.replace(event, max_participant=0, max_contest=0)",
    ),
    "an inexact offset is trusted": _of(APPENDS, 95)(
        "appended.offset if appended.exact else None", "appended.offset"
    ),
    "votes of a request have no order": _of(GROUPS, 101)(
        "before.after, after.before, after.is_held = after, before, True", "self.reply(after, None)"
    ),
    "a vote is reserved before one that takes more calls": _of(GROUPS, 101)(
        "        self.reply(runs[0], None)\n",
        "        self.reply(runs[0], None)\n"
        "        if isinstance(runs[0].effect, TakeAddress) and runs[0].request is None and len(runs) > 1:\n"
        "            runs[0].after = runs[1].before = None\n"
        "            self.reply(runs[1], None)\n",
    ),
    "what was loaded before the answer is put in force": _of("libs.voting.contest_cache", 427)(
        "return (await entry.loads.next()).contest", "return (entry.known or await entry.loads.next()).contest"
    ),
    "a voided vote counts as removed": _of(REMOVAL, 9)(
        "if contest is None or status is not VoteStatus.VOIDED", "if True"
    ),
    "a voided vote counts as removed once in doubt": _of(REMOVAL, 313)("not in UNDECIDED", "not in UNDECIDED[:2]"),
    "a removal that a fence ended is done": _of(REMOVAL, 313)("and not is_removed(recorded)", "and False"),
    "a pending vote needs no removal": _of(REMOVAL, 3)(
        "case NotFolded():",
        "case NotFolded():\n                return Removed(partition, None)\n            case 0:",
    ),
    # guards of fences, closings and folds
    "no fence": _of(FENCING, 0)("not state.open or is_in_the_future(state, now)", "is_in_the_future(state, now)"),
    "no fence for overdue reservations": _of(FENCING, 928)("now) or is_overdue", "now)"),
    "a clock that was wrong is kept": _of(FENCING, 725)(
        "return state.clock > max(state.now, now) + CLOCK_TOLERANCE_S * 1_000_000", "return False"
    ),
    "a purchase that is undecided is refused": _of(PURCHASES, 184)(
        "if casts and (gone or error.code not in UNDECIDED):", "if casts:"
    ),
    "settled before its markers are folded": _of(CLOSING, 26)("if not missing:", "if True:"),
    "fenced while the fold lags": _of(FENCING, 191)(
        "is not None and state.position.offset >= suspected_end", "is not None"
    ),
    "a fence does not ask for the catalogue's ends": _of(FENCING, 627)(
        "        await self._views.need(partition, fence, wait.ends)\n", ""
    ),
    "marked while votes are pending": _of(CLOSING, 243)("return state.pending == 0", "return True"),
    "marked behind a shut gate": _of(CLOSING, 238)("return state.open and (sent is", "return (sent is"),
    "closed before the end by a partition's clock": _of(CLOSING, 14)(
        "(now, *(state.now for state in states))", "(now,)"
    ),
    "closed with another end": _of(CLOSING, 82)("not current.closed and current.finishes == end", "True"),
    "marked before a reopening is in force": _of(CLOSING, 25)("state.reopened < contest.reopened", "False"),
    "a change is folded before it is in force": _of(CATALOGUE, 8)(
        "            await self._raise_config(versions)\n", "            pass\n"
    ),
    "a change is folded where a partition is away": _of(CATALOGUE, 655)(
        "for group in groups.values())",
        "for group in groups.values()), return_exceptions=True",
        "for error in (error for errors in replies for error in errors if error is not None):",
        "for error in ():",
    ),
    "a gap is folded over": _of(WORKER, 480)(
        "if first > self._next and self._gaps < GAPS_TOLERATED:",
        "if False:",
        "        check_contiguous(",
        "        0 and check_contiguous(",
    ),
    "a view that went back is not noticed": _of(WORKER, 38)("stored != self.position and not is_new:", "False:"),
    # guards of deletions, of rejected participants and of two versions of the events
    "a deleted contest takes votes": _of(CATALOGUE, 102)(
        "if not isinstance(event, Undecodable)", "if not isinstance(event, Undecodable | RecordDeleted)"
    ),
    "votes for whom nobody can vote stay paid": _of(PAID, 269)("not None and has_cast:", "not None and False:"),
    "votes that count again stay unpaid": _of(PAID, 1327)("is None and has_uncounted:", "is None and False:"),
    "a purchase of a lost secret is refused": _of(PURCHASES, 849)(
        "error.code not in UNDECIDED)", "error.code not in UNDECIDED or error.code == 'purchase_unreadable')"
    ),
    "a change of a newer version is passed over": _of("libs.projection.projection_interface", 34)(
        "if isinstance(event, UnknownEvent):", "if False:"
    ),
    "an event of a newer version is passed over": _of("libs.projection.votes_projection", 175)(
        "return items[:at], NewerEvent.of(self.topic, partition, item[OFFSET], item[REASON])", "continue"
    ),
    # guards of what voters are answered
    "a pending vote is said to be none": _of(READS, 108)(
        "        if state.pending:\n            raise LedgerCatchingUp(UNDECIDED, retry_after_s=1)\n", ""
    ),
    "a vote behind a shut gate is said to be none": _of(READS, 117)(
        "        if not state.progress.open:\n"
        "            raise LedgerCatchingUp(RECOVERING, retry_after_s=1)\n"
        "        raise NotFound",
        "        raise NotFound",
    ),
    # guards of the functions in Valkey
    "no incarnation in the fold": _lua(315)("if n < state.fence then", "if false then"),
    "no run id": _lua(194)("open = v[1] == 'open' and v[2] == run,", "open = v[1] == 'open',"),
    "pending outlives the fence": _lua(928)("call('UNLINK', base .. ':pending', base .. ':due')", ""),
    "no dedup": _lua(0)("if standing.records ~= '' and c:find(voter, standing, digest) then", "if false then"),
    "no compare-and-set": _lua(3)(
        "if offset ~= tonumber(args[2]) or (log ~= '' and log ~= args[1]) then",
        "if log ~= '' and log ~= args[1] then",
    ),
    "a joiner goes by its own limits": _lua(15)(
        "p[P_CONFIG], p[P_MAX_P],\n    p[P_MAX_C],", "p[P_CONFIG], kind == 1 and 0 or p[P_MAX_P],\n    p[P_MAX_C],"
    ),
    "confirm whatever the gate": _lua(2270)(
        "if not gate.open or gate.n ~= tonumber(incarnation) then return 0 end\n    call('HINCRBY'",
        "call('HINCRBY'",
    ),
    "released under any incarnation": _lua(3202)("or gate.n ~= tonumber(args[4]) then return 0", "then return 0"),
    "any configuration admits": _lua(8)(
        "if c.in_force ~= version then return { R_STALE, c.in_force, gate.n } end", ""
    ),
    "a projector's old version comes into force": _lua(679)("elseif in_force == UNLIMITED", "elseif false"),
    "a worker's early word comes into force": _lua(627)(
        "if reached < tonumber(call('HGET', base .. ':needs', place) or 0) then return -1 end", ""
    ),
    "a version below the floor comes into force": _lua(59)("or version < floor then return 0", "then return 0"),
    "configurations outlive the fence": _lua(70)(
        "call('UNLINK', base .. ':config', base .. ':floors', base .. ':needs')", ""
    ),
    "a voter's clock stands still": _lua(13)("math.max(microseconds(), gate.clock + 1)", "microseconds()"),
    "a shut gate admits": _lua(194)(
        "for i = 1, #requests do replies[i] = { R_SHUT } end\n      return pack(replies)", ""
    ),
    "fresh in any run": _lua(143)(".. ':generations', 'fresh') == run end", ".. ':generations', 'fresh') end"),
    "fresh before the log's end": _lua(143)("or tonumber(offset) < tonumber(args[3]) then return", "then return"),
    "a fence keeps the clock": _lua(725)("if gate.forget_clock then", "if false then"),
    "a fence of a forgotten past ends reservations": _lua(275)(
        "(after == UNLIMITED or after == state.fence)", "true"
    ),
    "an attempt gives back what another one holds": _lua(503)("others > 0 and not removed then", "false then"),
    "an id uses no more of its address than at first": _lua(1155)(
        "math.max(0, args[4] - had)", "(had > 0 and 0 or tonumber(args[4]))"
    ),
    "reopened before the mark": _lua(25)(
        "if reopened > 0 and c:reopened() < reopened then return { R_SHUT } end  -- a mark", "-- a mark"
    ),
    "removed from under its replacement": _lua(16)(
        "if replaced_soon(c, standing, list, digest) then return pack({ M_PENDING }) end", ""
    ),
    "replaces what is being removed": _lua(1)("if use.by_digest[REMOVAL .. held] then return { R_SHUT } end", ""),
    "reservations of replacements weigh nothing": _lua(448)("= taken[place] or weight", "= 0"),
    # guards of replays, swaps and rollbacks
    "a view that is ahead of the live one is swapped in": _lua(225)(
        "(offset > live_offset and not relaid)", "false"
    ),
    "what was swapped out is not folded any more": _lua(29)("or row.state == KEPT then\n       ", "then\n       "),
    "what was swapped out is not kept": _lua(345)(
        "keep(base, all.live, { state = KEPT, schema = all.schema or schema, since = seconds() })", ""
    ),
    "what was kept before stays at a swap": _lua(60)("== number or its.stored == KEPT then", "== number then"),
    "a view follows before it has reached the live one": _lua(2683)(
        "(log == live_log or live_log == '') and offset >= live_offset then", "true then"
    ),
    "a view that is ahead folds again what it has": _lua(909)("= { from = offset,", "= { from = range.from,"),
    "views expire before their time": _lua(345)("now - row.since >= tonumber(args[1])", "true"),
    "a rollback does not renew what is kept": _of(SWAP, 2116)(
        "if not await generations.renew(partition, kept):", "if False:"
    ),
    "only what has not expired is rolled back": _of(SWAP, 1622)(
        "if (kept := former(one)) is None:",
        "if (kept := former(one)) is None:\n                continue\n            if False:",
    ),
    "a view that went back is waited for": _of("libs.replay.generation_fold", 1586)(
        "            raise self._went_back(partition, behind) from None\n\n    async def _keep_up",
        "            return False\n\n    async def _keep_up",
    ),
    "what only a rebuilt catalogue has is not put in force": _of(JOB, 98)(
        "await self._target.before_overtaking(self._deployment, partition, passed)", "pass"
    ),
    "a rebuilt catalogue is swapped in wherever it is": _of(JOB, 98)(
        "accept=accept, at=position.offset)", "accept=accept)"
    ),
    "nobody folds what replaces another layout": _of(JOB, 1922)(
        "if found[one].live.schema != found[one].schema]", "if False]"
    ),
    "a gate stays open while the layout changes": _lua(1317)("if relaid or (gate.open", "if (gate.open"),
    "views of another layout are folded": _lua(47)("= row[2] == schema and row[1] or BROKEN", "= row[1]"),
    "views of another layout are compared": _of("libs.replay.verification", 22)(
        "if found[partition].live.schema == found[partition].schema]", "]"
    ),
    "what was dropped is resumed": _of(TARGETS, 747)("begun - broken - gone", "begun - broken"),
    "what is broken is resumed": _of(TARGETS, 47)(
        "if one.state in (State.BUILDING, State.FOLLOWING)}",
        "if one.state is not State.KEPT}",
        "begun - broken - gone",
        "begun - gone",
    ),
    # guards of views whose log lost records
    "a view ahead of its log is folded on": _of("libs.projection.log_identity", 119)(
        "elif stored.offset > (end := origin.extent.end):", "elif (end := 0):"
    ),
    "records in the places of lost ones are passed over": _of("libs.projection.log_identity", 1201)(
        "if (await reader.record(topic.name, partition, witness.offset)).timestamp_ms <=", "if 0 <="
    ),
    "a view that begins again leaves its gate open": _lua(3876)(
        "if taken_over then taken_over(base, at(base, number), true) end", ""
    ),
    "a vote after a lost fence does not count": _lua(1047)("if n < state.fence then", "if n ~= state.fence then"),
    # guards of the reports of external sources
    "a report counts twice": _lua(1580)("if c:has_report(field) then return false end", ""),
    "a report after the close counts": _lua(41)("if closing_of(s, c.top.cells[ROW_REOPENED]) > 0", "if false"),
    "a report after the close is accepted": _of(REPORTING, 41)("        if state.late:\n", "        if False:\n"),
    "another report under the id is accepted": _of(REPORTING, 19)("state.content != report.content:", "False:"),
    "a source is closed with its contest": _of(CLOSING, 41)(
        "until = closing.end + (0 if source.retired else grace_us)", "until = closing.end"
    ),
    "a source is closed by a late clock": _of(CLOSING, 294)("           if state.now <", "           if _now() <"),
    "a decrease counts at once": _lua(294)(
        "elseif reported[1] < f[1] and not decreases then", "elseif false then"
    ),
    # rules of the ledger and of the count
    "no limit of a participant": _lua(4)("form ~= BALLOT and exceeds(used_p + weight, max_p) then", "false then"),
    "no limit of a contest": _lua(194)("elseif exceeds(used_c + weight, max_c) then", "elseif false then"),
    "admitted after the end": _lua(26)("now >= till) then return {", "false) then return {"),
    "a refused purchase keeps its vote id": _of(PURCHASE, 673)(
        "or not self.taken_back", "or (self.status is PurchaseStatus.REFUNDED and not self.taken_back)"
    ),
    "a refunded purchase keeps its votes": _of(PURCHASE, 45)(
        "or not self.taken_back", "or (self.status is PurchaseStatus.REFUSED and not self.taken_back)"
    ),
    "a cast purchase is not refunded": _of(PURCHASE_FOLD, 94)(
        "    if known.status is PurchaseStatus.REFUNDED:\n        return None",
        "    if known.status is not PurchaseStatus.RECORDED:\n        return None",
    ),
    "a refunded purchase is cast": _of(PURCHASE_FOLD, 717)(
        "case PurchaseCast():\n            if known.status is PurchaseStatus.RECORDED:",
        "case PurchaseCast():\n            if True:",
    ),
    "a replaced vote leaves its figures": _lua(5)(
        "move_choices(c, standing, replaced, -1, counted and -1 or 0)", ""
    ),
    "a voter's next plain vote counts the voter again": _lua(2)("key == by_row then in_row", "false then in_row"),
    "a removed vote keeps its slot": _lua(5)("if slots[i] == digest then", "if false then"),
    "a replacement takes a period of its own": _lua(16)("vote.epoch = replaced.epoch", ""),
    "the sums of the former period are merged": _lua(12)("< standing.epoch - 1 end", "< standing.epoch end"),
    "a period begins while a vote of the last but one is pending": _lua(42)(
        "if source == FREE and use.oldest < epoch - 1 then return { R_SHUT } end", ""
    ),
    "a late mark closes what is being reopened": _lua(226)("math.abs(where[at]) >= seq", "where[at] >= seq"),
    "closed while something is pending": _lua(243)("pending = pending + 1", "pending = 0"),
    "reservations of replacements weigh as the others": _lua(547)("then weight = 0 end", "then weight = 1 end"),
    "voiding gives the allowance back": _lua(3)(
        "move_contest(c, standing, vote, 0, by)", "move_contest(c, standing, vote, by, by)"
    ),
    "an operation voids again and again": _lua(559)("if operations[i] == operation then return false end", ""),
    "an operation restores what another one voided": _lua(182)(
        "if operations[#operations] ~= operation then return false end", ""
    ),
    "what is not voided is restored": _lua(3)("~= from then return false end", "== LATE then return false end"),
    "voids at once after the close": _lua(538)(
        "return c:void_later(voter .. digest .. 'V', offset, restored, operation)", ""
    ),
    "a voided vote cannot be removed": _lua(607)("~= COUNTED and status ~= VOIDED then", "~= COUNTED then"),
    "a voter takes back what was voided": _lua(1396)("(refund or find_pending(list, REMOVAL .. digest))", "true"),
}
