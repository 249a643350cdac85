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
DRIVER: Final = "libs.voting.protocol_driver"
BATCHING: Final = "libs.voting.batching"
WAITING: Final = "libs.voting.partition_waiting"
CACHE: Final = "libs.voting.contest_cache"
FENCING: Final = "libs.projection.fencing"
CLOSING: Final = "services.projector.closing_manager"
CATALOGUE: Final = "libs.projection.record_projections"
WORKER: Final = "libs.projection.partition_worker"
VOTES: Final = "libs.projection.votes_projection"
READS: Final = "services.ingestion.voter_reads"

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
            "return _repeated(command, recorded.known, sign, partition, replayed=answer.joined)",
            "return Accepted(command, answer.terms, True, event.receipt, partition, recorded.known.offset)",
        ),
    ),
    "a joiner records limits of its own": _of(
        CASTING,
        (
            "event = cast_of(command, answer, sign(answer.terms.accepted_at))",
            "event = cast_of(command, answer, sign(answer.terms.accepted_at))\n"
            "                if answer.joined:\n"
            "                    import dataclasses\n"
            "                    event = dataclasses.replace(event, max_participant=0, max_contest=0)",
        ),
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
    "folded at whatever position": Mutation(
        WORKER,
        (("rest = records[self.position.offset - records[0].offset :]", "rest = records"),),
        (("if item[2] >= from then\n        fold_item", "if true then\n        fold_item"),),
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

RULES: Final = {
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

MUTATIONS: Final = PROTOCOL | MANAGERS | ANSWERS | SERVERS | RULES
SEEDS: Final = {
    "no confirmation": 5,
    "confirmed before the append": 65,
    "a lost confirmation confirms": 212,
    "a record in doubt is given up": 0,
    "a vote that a fence ended is accepted": 3,
    "a joiner records limits of its own": 4,
    "a voided vote counts as removed": 6,
    "a pending vote needs no removal": 3,
    "a removal that a fence ended is done": 10,
    "no fence": 0,
    "no fence for overdue reservations": 59,
    "a change is folded before it is in force": 3,
    "a view that went back is not noticed": 3,
    "a gap is folded over": 16,
    "a pending vote is said to be none": 108,
    "a vote behind a shut gate is said to be none": 93,
    "no incarnation in the fold": 3,
    "pending outlives the fence": 52,
    "no compare-and-set": 3,
    "no dedup": 0,
    "a joiner goes by its own limits": 6,
    "confirm whatever the gate": 3,
    "any configuration admits": 8,
    "reopened before the mark": 46,
    "a replaced vote leaves its figures": 5,
    "a replacement takes a period of its own": 17,
    "voiding gives the allowance back": 3,
    "what is not voided is restored": 3,
    "a voter's next plain vote counts the voter again": 2,
    "the sums of the former period are merged": 6,
    "a removed vote keeps its slot": 0,
}
"""A seed that notices each; those that are missing here no searched seed notices (README.md)."""
