"""Certificates of closings: the same result up to the close markers, for any reader and any batches."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.catalogue.errors import NotClosed
from libs.certificates.builder import LeafFold, Sealing
from libs.contracts.catalogue_events import CatalogueEvent
from libs.contracts.certificates import Certificate, differences
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.tally.counts import VoteSums
from libs.tally.events import ContestClosed, ContestReopened, Event, Fence, LogLost, Rating, VoteCast, VoteVoided
from libs.tally.voter_ledger import VoteStatus
from tests.libs.certificates.in_memory_log import MARK, TV, changed, closing, made, receipted, recorded
from tests.libs.views.random_logs import folded, logs
from tests.support.builders.contests import NOW, a_cast, a_removal, a_report, pseudonym
from tests.support.hypothesis_examples import examples


def votes(certificate: Certificate) -> dict[str, int]:
    return {one.participant_key: one.count for one in certificate.result.participants}


async def became(sealing: Sealing) -> list[str]:
    """By vote, in the order of the log; "-" of other records."""
    return [leaf.became for partition in range(2) for leaf in await sealing.leaves(partition)]


async def test_the_result_is_the_fold_up_to_the_marks() -> None:
    log = recorded(
        [
            a_cast("a", 3, voter="ann"),
            a_cast("b", 1, voter="bob", anonymous=True),
            a_cast("b", 1, voter="bob", anonymous=True, vote_id="again", source="c-paid"),
            a_cast("c", 9, voter="cid"),
            a_cast("a", voter="eve", contest="another"),
            MARK,
            a_cast("a", 5, voter="late"),
            a_removal(voter="ann"),
        ],
        [a_cast("a", 1, voter="dan"), MARK],
    )
    certificate = await log.certify()
    named = [(one.participant_key, one.status, one.title) for one in certificate.participants]
    assert certificate.title == "Final"
    assert named == [("a", "approved", "A"), ("b", "approved", "B"), ("z", "rejected", "Zed")]
    result = certificate.result
    assert (result.count, result.unique_voter_count, result.anonymous_voter_count) == (6, 4, 1)
    a, b = result.participants
    assert (a.participant_key, a.rank, a.count, a.unique_voter_count) == ("a", 1, 4, 2)
    assert (b.rank, b.count, b.unique_voter_count, b.anonymous_voter_count) == (2, 2, 1, 1)
    assert [(one.source, one.count) for one in b.sources] == [("c-free", 1), ("c-paid", 1)]
    assert [(one.source, one.count) for one in result.sources] == [("c-free", 5), ("c-paid", 1)]
    assert (result.rating, a.rating) == (None, None)


def rated(who: str, value: int, participant: str = "a", **changes: Any) -> VoteCast:
    rating = Rating(value, (("style", value // 2),))
    return a_cast(participant, voter=who, form="rating", max_participant=1, **{"rating": rating, **changes})


async def test_ratings_are_exact_sums_of_millionths() -> None:
    log = recorded(
        [
            rated("ann", 4_500_000),
            rated("bob", 1_000_000),
            rated("bob", 3_333_334, vote_id="v2"),
            rated("cid", 1_000_000, rating=Rating(5, (("removed", 5),))),
            a_removal(voter="cid"),
            MARK,
        ],
        catalogue=[made(), closing(kind="rating")],
    )
    result = (await log.certify()).result
    assert result.rating is not None
    assert (result.rating.count, result.rating.total) == (2, 7_833_334)
    [sub] = result.rating.sub_ratings
    assert (sub.sub_rating_id, sub.count, sub.total) == ("style", 2, 3_916_667)
    assert result.participants[0].rating == result.rating
    assert await became(await log.sealing()) == ["counted", "replaced", "counted", "removed", "-"]


async def test_a_rating_contest_is_certified_in_the_order_of_averages() -> None:
    log = recorded(
        [rated("ann", 4_000_000), rated("bob", 5_000_000), rated("cid", 9_000_000, "b"), MARK],
        catalogue=[made(), closing(kind="rating")],
    )
    result = (await log.certify()).result
    assert {one.participant_key: one.rank for one in result.participants if one.count} == {"b": 1, "a": 2}


async def test_external_sources_count_up_to_marks_of_their_own() -> None:
    reports: list[Event | bytes] = [
        a_report("first", ("A", 5, 4, 1), ("?", 9, 9, 0), source=TV),
        MARK,
        a_report("in the grace", ("A", 7, 5, 1), source=TV),
        ContestClosed("contest", 1, TV),
        a_report("late", ("A", 70, 5, 1), source=TV),
    ]
    others: list[Event | bytes] = [a_report("astray", ("A", 99, 9, 9), source=TV), a_cast("a", voter="ann"), MARK]
    for is_in_total in (True, False):
        log = recorded(reports, others, catalogue=[made(), closing(studio={"is_in_total": is_in_total})])
        certificate = await log.certify()
        assert votes(certificate) == ({"a": 8, "b": 0} if is_in_total else {"a": 1, "b": 0})
        source = certificate.result.sources[-1]
        assert (source.source, source.count, source.is_in_total) == (TV, 7, is_in_total)
        assert certificate.sources[0].mapping == [("A", "a"), ("B", "b")]
        sealed = certificate.partitions[0]
        assert (sealed.mark, sealed.leaves) == (2, 2)
        assert [(one.source, one.mark) for one in sealed.sources] == [(TV, 4)]


async def test_a_leaf_says_what_became_of_its_vote_and_nothing_of_other_records() -> None:
    log = recorded(
        [
            Fence(1),
            a_cast("a", voter="ann", max_participant=1, incarnation=1),
            a_cast("a", voter="ann", max_participant=1, incarnation=1),
            a_cast("a", voter="fenced"),
            a_cast("a", voter="ann", max_participant=1, vote_id="over", incarnation=1),
            a_cast("a", voter="bob", incarnation=1),
            a_removal(voter="bob", incarnation=1),
            a_cast("c", voter="cid", incarnation=1),
            a_cast("a", voter="dan", incarnation=1),
            VoteVoided("contest", pseudonym("dan"), "vote", "void", NOW),
            b"poison",
            MARK,
        ]
    )
    names = ["counted", "-", "-", "overruled", "removed", "-", "unapproved", "voided", "-"]
    assert await became(await log.sealing()) == names


async def test_a_vote_that_came_late_stays_late_in_the_next_closing() -> None:
    log = recorded(
        [
            a_cast("a", voter="ann"),
            MARK,
            a_cast("b", voter="bob"),
            ContestReopened("contest", 1),
            a_cast("b", voter="cid"),
            ContestClosed("contest", 2),
        ],
        [MARK, ContestReopened("contest", 1), ContestClosed("contest", 2)],
        catalogue=[made(), closing(), changed("reopened"), closing(2, expected=3)],
    )
    first, second = await log.certify(1), await log.certify(2)
    assert (votes(first), votes(second)) == ({"a": 1, "b": 0}, {"a": 1, "b": 1})
    assert (first.decision.offset, second.decision.offset) == (2, 4)
    assert [one.mark for one in second.partitions] == [6, 3]
    assert await became(await log.sealing(2)) == ["counted", "-", "late", "-", "counted", "-", "-"]


async def test_what_was_never_final_has_no_certificate() -> None:
    for log, said in (
        (recorded([a_cast("a")]), "partition 0"),
        (recorded([ContestReopened("contest", 1), MARK]), "partition 0"),
        (recorded([MARK], catalogue=[made(), closing(studio={})]), "partition 0"),
        (recorded([MARK], catalogue=[made()]), "no closing number 1"),
        (recorded([MARK], catalogue=[made(), changed("meanwhile"), closing(expected=1)]), "no closing number 1"),
    ):
        with pytest.raises(NotClosed, match=said):
            await log.certify()


async def test_participants_approved_when_the_closing_took_effect_count() -> None:
    """A decision made from an older configuration was refused, and made again."""
    decisions: list[CatalogueEvent] = [
        made(),
        changed("meanwhile"),
        closing(expected=1),
        closing(expected=3, approved="bc"),
    ]
    log = recorded([a_cast("a"), a_cast("c", voter="cid"), MARK], catalogue=decisions)
    assert votes(await log.certify()) == {"b": 0, "c": 1}


async def test_every_change_of_a_record_or_of_its_place_changes_the_root() -> None:
    casts = [receipted(a_cast("a", voter=f"v{at}", vote_id=f"v{at}")) for at in range(5)]
    honest = await recorded([*casts, MARK]).certify()
    forgeries: list[list[Event | bytes]] = [
        [*casts[:2], replace(casts[2], choices=(("b", 1),)), *casts[3:], MARK],
        [*casts[:2], replace(casts[2], platform="web"), *casts[3:], MARK],
        [*casts[:2], replace(casts[2], receipt="another"), *casts[3:], MARK],
        [casts[1], casts[0], *casts[2:], MARK],
        [*casts[:4], MARK],
        [*casts, casts[0], MARK],
        [*casts[:2], Fence(0), *casts[2:], MARK],
    ]
    for forgery in forgeries:
        forged = await recorded(forgery).certify()
        assert forged.partitions[0].root != honest.partitions[0].root
        assert any(line.startswith("/partitions/0/root: ") for line in differences(honest, forged))
        assert not any(line.startswith("/partitions/1") for line in differences(honest, forged))


async def test_no_number_of_a_certificate_can_be_changed_unseen() -> None:
    certificate = await recorded([a_cast("a", 2), MARK]).certify()
    assert certificate.is_whole
    assert differences(certificate, certificate) == []
    document = certificate.model_dump(mode="json")
    places = [place for place in _numbers(document) if place != ("format",)]
    assert len(places) > 20
    for *steps, last in places:
        forged: Any = orjson.loads(orjson.dumps(document))
        inside = forged
        for step in steps:
            inside = inside[step]
        inside[last] += 1
        read = Certificate.model_validate(forged)
        assert not read.is_whole
        [line] = differences(read, certificate)
        assert line.startswith("/" + "/".join(map(str, (*steps, last))) + ": ")


def _numbers(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The places of all whole numbers in a document."""
    if isinstance(value, dict):
        return [place for name, each in value.items() for place in _numbers(each, (*at, name))]
    if isinstance(value, list):
        return [place for index, each in enumerate(value) for place in _numbers(each, (*at, index))]
    return [at] if type(value) is int else []


@given(logs, st.integers(1, 3), st.integers(1, 50))
@settings(max_examples=examples(60), deadline=None)
def test_in_whatever_batches_a_log_is_read_its_leaves_and_sums_are_the_same(
    log: list[LogRecord], seq: int, batch: int
) -> None:
    """And the sums are those of the reference fold, cut off at the last mark."""
    end = log[-1].offset
    values = [ContestClosed("one", seq), *(ContestClosed("one", seq, name) for name in ("sms", "tv"))]
    marks = [LogRecord(end + at, 0, vote_codec.encode(mark)) for at, mark in enumerate(values, 1)]
    whole = log + marks + [LogRecord(end + 9, 0, vote_codec.encode(a_cast(contest="one", voter="behind")))]
    at_once, in_batches = (LeafFold("one", seq, ["sms", "tv"]) for _ in range(2))
    at_once.take(whole)
    for at in range(0, len(whole), batch):
        if not in_batches.is_complete:
            in_batches.take(whole[at : at + batch])
    assert list(at_once.leaves("ab")) == list(in_batches.leaves("ab"))
    assert (at_once.mark, at_once.source_marks) == (in_batches.mark, in_batches.source_marks)
    assert at_once.sums == in_batches.sums
    if at_once.is_complete:
        last = max(at_once.mark or 0, *at_once.source_marks.values())
        reference = folded([record for record in whole if record.offset <= last]).contests["one"]
        assert _some(at_once.sums.figures) == _some(reference.figures)
        counted = sum(leaf.became == "counted" for leaf in at_once.leaves(_Everybody()))
        assert counted == reference.ids[VoteStatus.COUNTED]


def _some(figures: dict[tuple[str, str], VoteSums]) -> dict[tuple[str, str], VoteSums]:
    return {name: its for name, its in figures.items() if its != VoteSums()}


class _Everybody(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


async def test_a_certificate_says_how_many_votes_the_log_lost_before_the_mark() -> None:
    """An event that a crash repeated counts once; what is lost after the mark belongs to no result."""
    loss = LogLost(first=1, end=4, noticed_at=NOW, votes=(("another", 9), ("contest", 2)))
    again, later = replace(loss, end=9, votes=(("contest", 1),)), replace(loss, first=7, votes=(("contest", 5),))
    log = recorded([loss, a_cast("a", voter="ann"), loss, again, MARK, later], [a_cast("b", voter="bob"), MARK])
    certificate = await log.certify()
    assert [partition.lost for partition in certificate.partitions] == [3, 0]
    assert votes(certificate) == {"a": 1, "b": 1}
