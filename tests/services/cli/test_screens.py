"""Texts of made-up results at 80 and 120 columns, as recorded and read by eye.

TALLY_UPDATE_DOCUMENTS=1 records them again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from libs.audit.audit_log import AuditRow, MemberChange
from libs.contracts.catalogue_events import ApiKey, KeyAncestor, KeyRules
from libs.monitoring.status import (
    Answer,
    Away,
    OtherGeneration,
    PartitionStatus,
    ProcessEnds,
    ProcessStatus,
    Status,
)
from libs.tally.events import Actor
from libs.views.generations.generations import ProjectionName, State
from services.cli.commands.doctor.command import diagnosis
from services.cli.commands.doctor.servers import fine, problem
from services.cli.commands.keys import listing, members_of
from services.cli.commands.log import audit_line
from services.cli.commands.status import status_text
from services.cli.commands.void import COLUMNS as VOID_COLUMNS
from services.cli.output import Block, Result, show
from tests.libs.monitoring.partition_rows import a_partition
from tests.support.generated_files import updated

SCREENS: Final = Path(__file__).parent / "screens"
AT: Final = 1_777_658_400_000
TIME: Final = "2026-05-01T18:00:00.000000Z"
KEY, OTHER_KEY = "0123456789abcdef01234567", "89abcdef0123456789abcdef"
GATEWAY, PROJECTOR = (ProcessStatus(name, pid, alive=True) for name, pid in (("gateway", 41), ("projector", 42)))


def row(projection: ProjectionName, partition: int, **members: Any) -> PartitionStatus:
    """Build the status of a partition that has processed all of its records."""
    well: dict[str, Any] = {
        "partition": partition,
        "generation": 1,
        "position": 1_204_518,
        "end": 1_204_518,
        "last_event": AT - 3_000,
    }
    if projection is ProjectionName.VOTES:
        votes = {"pending": 0, "fenced": 2, "duplicates": 17, "overruled": 0, "open": True, "incarnation": 5}
        well |= votes | {"valkey_clock_off_s": 0.01, "clock_ahead_s": 0.0}
    return a_partition(projection, **(well | members))


WELL: Final = [row(projection, partition) for projection in ProjectionName for partition in range(2)]
FAULTS: Final = [
    row(ProjectionName.VOTES, 0, open=False, pending=3, oldest_pending_s=12.0),
    row(
        ProjectionName.VOTES,
        1,
        position=1_204_506,
        lag_s=95.0,
        stalled_since=AT - 95_000,
        quarantined=1,
        generations=[OtherGeneration(number=2, state=State.BROKEN, position=800_000, behind=404_506)],
    ),
    *WELL[2:-1],
]
KEYS: Final = [
    (
        ApiKey(
            "north",
            KEY,
            "",
            ("votes:write", "results:read"),
            AT * 1000,
            KeyRules("app", (AT + 86_400_000) * 1000, ("192.0.2.0/24",), 500),
        ),
        AT * 1000,
    ),
    (
        ApiKey("north", OTHER_KEY, "", ("results:read",), AT * 1000, KeyRules("wall"), (KeyAncestor(KEY, None),)),
        None,
    ),
]


VOIDS: Final = [
    dict(zip(VOID_COLUMNS.split(), values, strict=True))
    for values in (
        ("0196a1b2c3d4-e5f607", KEY, "Final", TIME, 1_250, 40, 3, 1_207, 0, "bought votes"),
        ("0196a1b2c3d5-a5f608", OTHER_KEY, "The second semi-final, live from the square", TIME, 7, 0, 0, 7, 0, ""),
    )
]


def changed(offset: int, change: list[MemberChange], **subject: str) -> AuditRow:
    actor, subject = Actor("key", KEY, "192.0.2.7"), {"contest": OTHER_KEY} | subject
    return AuditRow(TIME, "catalogue", 0, offset, actor, "RecordChanged", "north", subject, change)


REOPENER: Final = Actor("command", "reopen", "eve@host")
AUDIT: Final = [
    changed(7, [MemberChange("title", "Semi-final", "Final"), MemberChange("end", None, TIME)], title="Final"),
    changed(8, [MemberChange("status", "approved", "rejected")], participant=KEY, title="Ann"),
    AuditRow(TIME, "catalogue", 0, 9, REOPENER, "reopen", None, {"contest": OTHER_KEY}),
]
DOCTOR: Final = [
    fine("gateway", "runs as process 41"),
    problem("gateway-2", "process 43 does not answer", "`tally up` restarts it if it stays so; read its log"),
    problem(
        "projector",
        "process 42 has ended",
        "`tally up` starts it again by itself; if it does not, read its log and restart",
    ),
    fine("Kafka", "answers at 10.0.0.5:9092,10.0.0.6:9092,10.0.0.7:9092"),
    problem("Valkey", "does not answer at 10.0.0.9:6379; the other servers do", "start it again", away=True),
    replace(
        problem("views", "test 1: away: Valkey 10.0.0.9:6379 does not answer in time", "see the servers above"),
        follows=True,
    ),
]


def commands() -> Mapping[str, Iterable[Block]]:
    """Return the text of each command."""
    lost = [
        Away("Valkey 10.0.0.9:6379", "away: does not answer"),
        Away("test 1", "away: Valkey 10.0.0.9:6379 does not answer in time", follows=True),
    ]
    ended = ProcessEnds(2, AT - 1_000, "by SIGKILL")
    dead = ProcessStatus("projector", 42, alive=False, ends=ended, restarts_at=AT + 4_000)
    hung = ProcessStatus("gateway-2", 43, alive=True, answer=Answer.SILENT)
    unready = replace(GATEWAY, answer=Answer.UNREADY, waits_for=["views"])
    return {
        "status": status_text(Status(AT, WELL, [GATEWAY, replace(PROJECTOR, ends=ended)], [])),
        "status (faults)": status_text(Status(AT, FAULTS, [unready, hung, dead], [], lost)),
        "keys list": listing([members_of(*key) for key in KEYS]).text,
        "void list": Result.listing("voids", VOIDS, VOID_COLUMNS).text,
        "log --audit": [audit_line(row) for row in AUDIT],
        "doctor": diagnosis(DOCTOR, stack=True).text,
    }


@pytest.mark.parametrize("columns", [80, 120])
def test_what_a_terminal_shows_is_whole(columns: int) -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=columns, color_system=None, highlight=False)
    for name, blocks in commands().items():
        console.print(f"$ tally {name}", markup=False)
        show(blocks, console)
    shown = "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
    assert updated(SCREENS / f"{columns}.txt", shown) == shown
