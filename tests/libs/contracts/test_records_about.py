"""Records that can concern a contest are found without decoding: none is missed, however its JSON is written."""

import json

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord, about
from libs.tally.events import ContestClosed, ContestReopened, Fence, LogCreated
from tests.support.builders.contests import a_cast, a_removal, a_report, a_restore, a_void

MINE = "c0ffee0123456789abcdef01"


def test_every_event_of_a_contest_and_all_that_name_none_are_found() -> None:
    events = [
        LogCreated("log"),
        Fence(1),
        *(
            event
            for contest in (MINE, "other")
            for event in (
                a_cast(contest=contest),
                a_removal(contest=contest),
                a_void(contest=contest),
                a_restore(contest=contest),
                a_report(contest=contest),
                ContestClosed(contest, 1),
                ContestReopened(contest, 1),
            )
        ),
    ]
    records = [LogRecord(offset, 0, vote_codec.encode(event)) for offset, event in enumerate(events)]
    assert [record.offset for record in about(records, MINE)] == list(range(9))


def test_a_key_in_other_spellings_of_json_is_found() -> None:
    spaced = json.dumps({"contest": MINE, "type": "ContestClosed"}, indent=1).encode()
    escaped = spaced.replace(MINE[:1].encode(), b"\\u0063")
    records = [LogRecord(0, 0, spaced), LogRecord(1, 0, escaped), LogRecord(2, 0, b"no JSON")]
    assert about(records, MINE) == records
