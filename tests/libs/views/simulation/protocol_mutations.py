"""Mutations of the protocols' code, each a text that replaces another."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from libs.tally.contest import Contest
from libs.views.reply_types import ClosingState
from libs.voting.protocol import casting, removal, unknown_appends
from tests.libs.views.simulation.projectors import may_close
from tests.libs.views.simulation.simulated_system import SimulatedSystem


def closes_behind_a_shut_gate(system: SimulatedSystem, contest: Contest, state: ClosingState) -> bool:
    return may_close(system, contest, replace(state, open=True))


RAISING_MUTATIONS: dict[str, dict[str, Any]] = {
    "a change is answered before it is raised": {"answers_early": True},
}
CLOSING_MUTATIONS: dict[str, dict[str, Any]] = {
    "closed behind a shut gate": {"may_close": closes_behind_a_shut_gate},
}
PROTOCOL_MUTATIONS: dict[str, tuple[ModuleType, list[tuple[str, str]]]] = {
    "no confirmation": (unknown_appends, [("confirmed = yield Confirm(event.incarnation)", "confirmed = True")]),
    "confirmed before the append": (
        unknown_appends,
        [
            ("appended = yield Append", "early = yield Confirm(event.incarnation)\n    appended = yield Append"),
            ("confirmed = yield Confirm(event.incarnation)", "confirmed = early"),
        ],
    ),
    "a lost confirmation confirms": (unknown_appends, [("confirmed is True", "confirmed is not False")]),
    "the offset of a batch that may be a duplicate": (
        unknown_appends,
        [("appended.offset if appended.exact else None", "appended.offset")],
    ),
    "a record in doubt is given up": (
        unknown_appends,
        [
            ("if isinstance(appended, NotAppended)", "if not isinstance(appended, Appended)"),
            ("        return appended\n", "        return NotAppended('gone')\n"),
        ],
    ),
    "what another request recorded under the id is one's own": (
        casting,
        [("if recorded.content == command.content:", "if True:")],
    ),
    "a vote that a fence ended is accepted": (
        casting,
        [
            (
                "fenced = True  # its record can never count, so it may be reserved again\n"
                "                        continue",
                "return _accepted(command, answer, event.receipt, partition, len(event.receipt))",
            )
        ],
    ),
    "accepted by the own grant where another record was folded": (
        casting,
        [
            (
                "return _repeated(command, recorded.known, sign, partition, replayed=answer.joined)",
                "return _accepted(command, answer, event.receipt, partition, recorded.known.offset)",
            )
        ],
    ),
    "a joiner records limits of its own": (
        casting,
        [
            (
                "event = cast_of(command, answer, sign(answer.accepted_at))",
                "event = cast_of(command, answer, sign(answer.accepted_at))\n"
                "                if answer.joined:\n"
                "                    event = replace(event, max_participant=0, max_contest=0)",
            ),
            ("from typing import", "from dataclasses import replace\nfrom typing import"),
        ],
    ),
    "a voided vote counts as removed": (
        removal,
        [("if contest is None or status is not VoteStatus.VOIDED", "if True")],
    ),
    "a voided vote counts as removed once in doubt": (
        removal,
        [("UNDECIDED = None, VoteStatus.COUNTED, VoteStatus.VOIDED", "UNDECIDED = None, VoteStatus.COUNTED")],
    ),
    "a removal that a fence ended is done": (removal, [("and not is_removed(recorded)", "and False")]),
    "a pending vote needs no removal": (
        removal,
        [
            (
                "case NotFolded():",
                "case NotFolded():\n                return Removed(partition, None)\n            case 0:",
            )
        ],
    ),
}
"""Steps of the voting protocols as they are shipped: the module, and its text replaced."""


def altered(module: ModuleType, changes: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The functions of a module whose text was changed."""
    source = inspect.getsource(module)
    for old, new in changes:
        assert source.count(old) == 1, f"{module.__name__} has not one {old!r}"
        source = source.replace(old, new)
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source, str(module.__file__), "exec"), names)
    functions = (value for value in names.values() if inspect.isfunction(value))
    return {value.__name__: value for value in functions if value.__module__ == module.__name__}
