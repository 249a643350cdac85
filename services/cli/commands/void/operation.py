"""Selects, previews and executes operations that void or restore votes."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import typer

from libs.audit.recount import Ballots, Pair, ParticipantEffect, Totals, VoidEvent, effect
from libs.catalogue.contests.contest_mapper import sources_of
from libs.contracts.codec import vote_codec
from libs.contracts.ndjson_codec import HIDDEN
from libs.contracts.pseudonyms import network_of, pseudonym
from libs.deployment.deployment import Deployment
from libs.results.contest_counts import counts_by_partition, sum_of
from libs.results.contest_results import results_of, vote_count
from libs.storage.secrets import find_contest_secret
from libs.tally.errors import LogUnavailable, NotFound, TallyError, ViewsUnavailable
from libs.tally.events import VoteCast
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import moment
from services.cli.contest_lookup import named
from services.cli.operator_actions import record_action
from services.cli.render import Block, Rows, plural

INTERNAL = "c-free", "c-paid"
PLATFORMS = "ios", "android", "web"


@dataclass(frozen=True, slots=True)
class Options:
    """Options as given; None if absent."""

    address: str | None = None
    since: str | None = None
    until: str | None = None
    voters: Path | None = None
    anonymous: Path | None = None
    source: str | None = None
    platform: str | None = None
    participant: str | None = None
    everything: bool = False

    def check(self) -> None:
        """Validate the options. Raises `BadParameter`."""
        given = [
            self.address, self.since, self.until, self.voters, self.anonymous, self.source, self.platform,
            self.participant,
        ]  # fmt: skip
        if self.everything == any(one is not None for one in given):
            raise typer.BadParameter("Select votes by one or more options, or give --all.")
        if self.source is not None and self.source not in INTERNAL:
            remedy = 'Its counts are reported, not cast: report lower ones with "allow_decrease": true.'
            raise typer.BadParameter(
                f"{self.source} is not {' or '.join(INTERNAL)}. {remedy}", param_hint="--source"
            )
        if self.platform is not None and self.platform not in PLATFORMS:
            raise typer.BadParameter(f"One of {', '.join(PLATFORMS)}.", param_hint="--platform")


@dataclass(frozen=True, slots=True)
class VoteFilter:
    """Matches votes by all members that are not None.

    `address` and `voters` are pseudonyms, times [since, until) in µs.
    """

    address: str | None
    since: int | None
    until: int | None
    voters: Collection[str] | None
    source: str | None
    platform: str | None
    participant: str | None

    def has(self, cast: VoteCast) -> bool:
        return (
            (self.address is None or cast.address == self.address)
            and (self.since is None or cast.accepted_at >= self.since)
            and (self.until is None or cast.accepted_at < self.until)
            and (self.voters is None or cast.voter in self.voters)
            and (self.source is None or cast.source == self.source)
            and (self.platform is None or cast.platform == self.platform)
            and (self.participant is None or any(key == self.participant for key, _ in cast.choices))
        )


async def selection(deployment: Deployment, contest: str, options: Options) -> VoteFilter:
    """Build the selection. Raises `BadParameter`, and `NotFound` if the contest's secret is needed but missing."""
    options.check()
    address = None if options.address is None else _network(options.address)
    named = address is not None or options.voters is not None or options.anonymous is not None
    secret = await _secret(deployment, contest) if named else b""
    voters = None
    if options.voters is not None or options.anonymous is not None:
        voters = {pseudonym(secret, "voter", name) for name in _lines(options.voters)}
        voters |= {pseudonym(secret, "anonymous", name) for name in _lines(options.anonymous)}
    return VoteFilter(
        address=None if address is None else pseudonym(secret, "address", address),
        since=None if options.since is None else moment(options.since, "--from"),
        until=None if options.until is None else moment(options.until, "--until"),
        voters=voters,
        source=options.source,
        platform=options.platform,
        participant=options.participant,
    )


def _network(address: str) -> str:
    try:
        return network_of(address)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--address") from None


async def _secret(deployment: Deployment, contest: str) -> bytes:
    secret = await find_contest_secret(deployment.store, contest)
    if secret is None:
        raise NotFound(
            f"No secret of contest {contest} is in the object store: it has no votes yet, or "
            "TALLY_STORAGE_URL names another store. Without it votes cannot be found by voter or address."
        )
    return secret


def _lines(file: Path | None) -> list[str]:
    text = "" if file is None else file.read_text("utf-8")
    return [line for line in text.splitlines() if line]


AGAIN: Final = "Run again with --execute to record it."


@dataclass(frozen=True, slots=True)
class VoidResult:
    """Operation `void`: the number of its votes and their voters, and the counts before and after it.

    They are those of the log at `positions`, an offset per partition, read at `at`.
    """

    void: str
    verb: str = field(metadata=HIDDEN)
    contest_key: str
    title: str
    executed: bool
    waits_for_reopening: bool
    votes: int
    voters: int
    contest: Totals
    participants: Sequence[ParticipantEffect]
    at: str | None
    positions: dict[int, int]


def void_text(result: VoidResult) -> Iterator[Block]:
    """Yield the participants, the most affected first, the contest, and last the outcome."""
    yield Rows(
        [
            {
                "participant": row.participant_key,
                "title": row.title,
                "votes": _arrow(row.count),
                "rank": _arrow(row.rank),
                "voters": _arrow(row.unique_voter_count),
            }
            for row in result.participants
        ]
    )
    total, about = result.contest, f"{plural(result.votes, 'vote')} of {plural(result.voters, 'voter')}"
    contest = named(result.contest_key, result.title)
    yield f"Contest {contest}: {_arrow(total.count)} votes, {_arrow(total.unique_voter_count)} voters."
    offsets = " ".join(f"{partition}:{offset}" for partition, offset in sorted(result.positions.items()))
    yield f"By the log as of {result.at}; later votes are not affected. Positions: {offsets}"
    if not result.votes:
        yield f"No votes can be {result.verb}."
    elif not result.executed:
        effect = "The contest is over: this changes its result only after `tally reopen`. "
        yield f"{about} would be {result.verb}. {effect if result.waits_for_reopening else ''}{AGAIN}"
    elif result.waits_for_reopening:
        yield f"Operation {result.void}: {about}."
        yield "Recorded; the result does not change until `tally reopen`."
    else:
        yield f"{result.verb.capitalize()}: {about}, as {result.void}."


def _arrow(pair: Pair) -> str:
    return f"{pair.before:,}" if pair.before == pair.after else f"{pair.before:,} -> {pair.after:,}"


AT_ONCE = 500
ATTEMPTS = 5
"""Attempts per record with an unknown outcome or an error: the fold ignores duplicates."""
FOLD_WAIT_S = 30.0
POLL_S = 0.05


async def append(deployment: Deployment, events: Sequence[tuple[int, VoidEvent]]) -> None:
    """Append each of `events` to its partition. Raises `LogUnavailable`; some may then be appended."""
    log = await deployment.log()

    async def append_one(partition: int, event: VoidEvent) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await log.append(deployment.votes.name, partition, vote_codec.encode(event), event.voter.encode())
            except LogUnavailable as error:
                if error.retry_after_s is None or attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(error.retry_after_s)
            else:
                deployment.progress.advance(1)
                return

    deployment.progress.begin("Recording", len(events))
    for at in range(0, len(events), AT_ONCE):
        await asyncio.gather(*(append_one(*event) for event in events[at : at + AT_ONCE]))


async def read_back(deployment: Deployment, ballots: Ballots, partitions: set[int]) -> dict[str, Any]:
    """Return the views' vote count record once `partitions` are folded to their current ends.

    Raises `ViewsUnavailable` after `FOLD_WAIT_S`.
    """
    topic, views = deployment.votes, deployment.vote_views
    ends = await deployment.reader.end_offsets(topic.name, partitions)
    deadline = asyncio.get_running_loop().time() + FOLD_WAIT_S
    for partition, end in ends.items():
        while (await views.state(partition)).position.offset < end:
            if asyncio.get_running_loop().time() > deadline:
                raise ViewsUnavailable(
                    f"All events are recorded, but were not processed within {FOLD_WAIT_S:.0f} s",
                    retry_after_s=1,
                )
            await asyncio.sleep(POLL_S)
    counts = sum_of(await counts_by_partition(views, topic, ballots.contest))
    results = results_of(ballots.contest, sources_of(ballots.config), counts)
    return vote_count(ballots.contest, 0, counts, results, sources=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `void` is its name, `again` the command that resumes it after an interruption."""

    void: str
    verb: str
    again: str
    ballots: Ballots
    events: Sequence[tuple[int, VoidEvent]]

    async def run(self, deployment: Deployment, *, execute: bool) -> VoidResult:
        """Return the effect, or execute the operation and return the views' counts.

        Raises as `append` and `read_back`.
        """
        ballots = self.ballots
        before = ballots.record()
        for event in self.events:
            ballots.fold(*event)
        after = ballots.record()
        if execute and self.events:
            recorded = await self._execute(deployment)
            after = after if ballots.is_over else recorded
        config, found = ballots.config.contest, effect(ballots, before, after, self.events)
        return VoidResult(
            void=self.void,
            verb=self.verb,
            contest_key=ballots.contest.key,
            title="" if config is None else config.document.get("title") or "",
            executed=execute,
            waits_for_reopening=ballots.is_over,
            votes=found.votes,
            voters=found.voters,
            contest=found.total,
            participants=found.rows,
            at=timestamp(ballots.at),
            positions=ballots.positions,
        )

    async def _execute(self, deployment: Deployment) -> dict[str, Any]:
        contest, votes = self.ballots.contest.key, len(self.events)
        await record_action(deployment, f"votes {self.verb}", contest=contest, void=self.void, votes=votes)
        try:
            await append(deployment, self.events)
        except TallyError as error:
            error.message = f"{error.message.rstrip('.')}. Part of it may be recorded: resume with `{self.again}`."
            raise
        return await read_back(deployment, self.ballots, {partition for partition, _ in self.events})
