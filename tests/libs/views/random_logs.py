"""Random logs of one votes partition: consistent events, inconsistent events, and invalid records."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    Fence,
    LogCreated,
    LogLost,
    Rating,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.fold import PartitionTally
from tests.support.builders.contests import NOW, a_cast, a_removal, a_report, a_restore, a_void, content_hash

LARGEST = 2**31 - 1
POISON = [b"{}", b"not json", b'{"type":"unheard"}', b'{"type":"VoteCast"}', b"1,2", b"null", b"[]"]
UNFOLDABLE: list[Event] = [
    replace(a_cast(), choices=(("a", 1), ("b", 2))),
    replace(a_cast(), choices=()),
    replace(a_cast(), choices=(), form="ballot"),
    replace(a_cast(), choices=(("a", 1), ("a", 2)), form="ballot"),
    replace(a_cast(), form="rating"),
    replace(a_cast(), choices=(("a", 2),), form="rating", rating=Rating(1)),
    replace(a_cast(), rating=Rating(1)),
    replace(a_cast(), form="rating", rating=Rating(2**31)),
    replace(a_removal(), incarnation=2**60),
    replace(a_removal(), content="short"),
    replace(a_report(), report_id="a\0b"),
    replace(a_report(), counts=(("x", -1, 0, 0),)),
    replace(a_report(), counts=(("x", 2**44, 0, 0),)),
    ContestClosed("contest", 0),
    ContestClosed("contest", 1, ""),
    ContestReopened("", 1),
    ContestReopened("contest", 1, 0),
    replace(a_cast(), content="short"),
    replace(a_cast(), voter="no base64 at all"),
    replace(a_cast(), choices=(("", 1),)),
    replace(a_cast(), choices=(("a", 0),)),
    replace(a_cast(), choices=(("a", 2**24),)),
    replace(a_cast(), contest="a\0b"),
    replace(a_cast(), accepted_at=2**60),
    replace(a_cast(), max_contest=2**31),
    replace(a_cast(), max_participant=-2),
    replace(a_cast(), remaining_contest=2**31),
    replace(a_cast(), epoch=2**28),
    replace(a_cast(), incarnation=2**60),
    Fence(2**60),
    Fence(2**50, after=2**60),
]
LOSSES = [LogLost(1, 5, NOW, votes=(("one", 3), ("other", 2))), LogLost(1, 5, NOW + 1, votes=(("one", 1),))]

limits = st.sampled_from([-1, 0, 1, 2, 5, 9, 40, LARGEST])
participants = st.sampled_from(["a", "b", "a:b", "é", "p" * 40])
counts = st.sampled_from([1, 1, 2, 3, 1_000_000])
casts = st.builds(
    lambda voter, anonymous, **rest: a_cast(voter=f"{voter}{anonymous}", anonymous=anonymous, **rest),
    voter=st.sampled_from(["v", "v", "v", "w", "x"]),
    anonymous=st.booleans(),
    contest=st.sampled_from(["one", "one", "one", "two:é"]),
    vote_id=st.integers(0, 40).map(str),
    content=st.integers(0, 3).map(content_hash),
    source=st.sampled_from(["c-free", "c-paid"]),
    choices=st.tuples(st.tuples(participants, counts)),
    accepted_at=st.integers(NOW, NOW + 10**9),
    incarnation=st.sampled_from([0] * 10 + [1, 1, 2, 2, 2**50]),
    max_participant=limits,
    max_contest=limits,
    epoch=st.sampled_from([0, 0, 0, 1, 77]),
    remaining_participant=st.none() | st.integers(0, LARGEST),
    remaining_contest=st.none() | st.integers(0, LARGEST),
    next_free_vote_at=st.none() | st.just(NOW + 5),
)  # fmt: skip
fences = st.builds(
    Fence,
    incarnation=st.sampled_from([0, 1, 2, 3, 2**50]),
    after=st.none() | st.sampled_from([0, 1, 2]),
    run=st.none() | st.just("a run"),
)
ODD = *UNFOLDABLE, *LOSSES, LogCreated("again")
others = st.sampled_from([*POISON, *map(vote_codec.encode, ODD)])
contests = st.sampled_from(["one", "one", "one", "two:é"])
removals = st.builds(
    lambda voter, anonymous, **rest: a_removal(voter=f"{voter}{anonymous}", anonymous=anonymous, **rest),
    voter=st.sampled_from(["v", "v", "v", "w"]),
    anonymous=st.booleans(),
    contest=contests,
    content=st.integers(0, 3).map(content_hash),
    source=st.sampled_from(["c-free", "c-paid"]),
    incarnation=st.sampled_from([0] * 10 + [1, 2]),
    removed_at=st.integers(NOW, NOW + 10**9),
)
figures = st.tuples(st.sampled_from(["x", "y", "é", "1"]), *[st.integers(0, 9) | st.just(2**44 - 1)] * 3)
reports = st.builds(
    a_report,
    contest=contests,
    source=st.sampled_from(["sms", "tv"]),
    mode=st.sampled_from(["cumulative", "cumulative", "delta"]),
    allow_decrease=st.sampled_from([False, False, True]),
    counts=st.lists(figures, max_size=4).map(tuple),
)
marks = st.builds(
    ContestClosed, contests, st.sampled_from([1, 1, 2, 3]), st.none() | st.sampled_from(["sms", "tv"])
) | st.builds(ContestReopened, contests, st.sampled_from([1, 2, 2, 3]), st.sampled_from([None, 1, 1, 2, 5]))
voids = st.sampled_from([a_void(), a_void(), a_restore(), a_void(voter="nobody")])
closed = ContestClosed("one", 4)
voiding: list[Event | bytes] = [a_void(), a_restore()]
closing = [closed, closed, *voiding, a_removal(contest="one"), ContestReopened("one", 2)]
reopening = [ContestReopened("one", 4, 1), a_void(), *voiding]
palettes = st.lists(
    st.one_of(*[casts] * 10, removals, removals, reports, reports, marks, fences, fences, voids, voids, others),
    min_size=1,
    max_size=12,
)


def some_changes(rng: Random, cast: VoteCast) -> dict[str, Any]:
    """Other limits, sources, forms and participants of the same voter, often; not of what is unfoldable."""
    if cast in UNFOLDABLE or rng.random() < 0.3:
        return {}
    return {"epoch": rng.choice([0, 0, 1, 2]), **_another_form(rng)}


def _another_form(rng: Random) -> dict[str, Any]:
    match rng.choice(["plain", "plain", "rating", "rating", "ballot"]):
        case "rating":
            subs = tuple((name, rng.randrange(5) * 500_000) for name in "st" if rng.random() < 0.5)
            return {
                "form": "rating",
                "rating": Rating(rng.randrange(11) * 500_000, subs),
                "choices": ((rng.choice("abc"), 1),),
                "max_participant": rng.choice([1, 1, 1, 2, -1]),
                "max_contest": rng.choice([-1, 2, 15]),
                "source": rng.choice(["c-free", "c-free", "c-paid"]),
            }
        case "ballot":
            places = rng.sample("abcd", rng.randint(1, 3))
            return {
                "form": "ballot",
                "choices": tuple((name, votes) for name, votes in zip(places, [5, 3, 1], strict=False)),
                "max_participant": -1,
                "max_contest": rng.choice([-1, 1, 1, 3]),
            }
    return {
        "max_participant": rng.choice([-1, 1, 2, 4, 7]),
        "max_contest": rng.choice([-1, 3, 8, 15]),
        "source": rng.choice(["c-free", "c-paid"]),
        "choices": ((rng.choice("abc"), rng.choice([1, 1, 2, 5])),),
    }


def a_log(palette: list[Event | bytes], size: int, seed: int, reopens: bool = False) -> list[LogRecord]:
    """`size` records out of the palette, votes under ever other ids; offsets have gaps, append times go back.

    With `reopens`, a contest is closed in the end, and reopened in parts.
    """
    rng = Random(seed)
    log = [LogRecord(0, 1_000, vote_codec.encode(LogCreated("log")))]
    fences = PartitionTally()
    cast: list[VoteCast] = []
    renews = rng.random() < 0.4
    late = range(size - 12, size) if reopens else range(0)
    for at in range(size):
        possible = (closing if at < late.start + 8 else reopening) if at in late else palette
        event = rng.choice(possible)
        if isinstance(event, ContestClosed) and at not in late and rng.random() < 0.7:
            continue
        if isinstance(event, ContestClosed) and event not in UNFOLDABLE:
            event = replace(event, source=rng.choice([None, "sms", "tv"]))
        if isinstance(event, Fence) and event not in UNFOLDABLE:
            fences.evolve(event, 0, 0)
        if isinstance(event, VoteCast | VoteRemoved) and event not in UNFOLDABLE and rng.random() < 0.8:
            event = replace(event, incarnation=fences.fence)
        if isinstance(event, VoteCast):
            event = replace(event, vote_id=str(rng.randrange(60)), **some_changes(rng, event))
            if renews and event not in UNFOLDABLE:
                event = replace(event, epoch=max(0, at // 20 - rng.choice([0, 0, 0, 1, 1, 2])))
            cast += [] if event in UNFOLDABLE else [event]
        elif isinstance(event, VoteVoided | VoteRestored) and cast and rng.random() < 0.9:
            vote = rng.choice(cast)
            event = replace(
                event, contest=vote.contest, voter=vote.voter, vote_id=vote.vote_id, void=rng.choice("vw")
            )
        elif isinstance(event, VoteRemoved):
            event = replace(event, vote_id=str(rng.randrange(60)))
        elif isinstance(event, SourceReported) and event not in UNFOLDABLE:
            event = replace(event, report_id=str(rng.randrange(30)))
            if rng.random() < 0.7:
                event = replace(event, counts=tuple((name, rng.randrange(9), 1, 0) for name in "xy"))
        value = event if isinstance(event, bytes) else vote_codec.encode(event)
        offset, time_ms = log[-1].offset + rng.choice([1, 1, 1, 2, 9]), log[-1].timestamp_ms + rng.randint(-3, 10)
        log.append(LogRecord(offset, time_ms, value))
    return log


logs = st.builds(a_log, palettes, st.sampled_from([3, 30, 150, 400]), st.integers(0, 2**32), st.booleans())


def is_poison(record: LogRecord) -> bool:
    event = vote_codec.decode(record.value)
    if isinstance(event, VoteCast | VoteRemoved):
        event = replace(event, vote_id="vote")
    return isinstance(event, Undecodable) or event in UNFOLDABLE


def folded(log: list[LogRecord]) -> PartitionTally:
    tally = PartitionTally()
    for record in log:
        event = vote_codec.decode(record.value)
        if not isinstance(event, Undecodable) and not is_poison(record):
            tally.evolve(event, record.offset, record.timestamp_ms)
    return tally
