"""`tally ask`: answers questions about a contest's past from the log, and compares the answer with its result."""

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

from typer import Argument, BadParameter, Option

from libs.audit.hypothetical_recount import (
    Asked,
    OtherRules,
    as_cast,
    compare_moments,
    folds,
    read_contest,
    recount,
)
from libs.audit.recount import Pair, ParticipantEffect, Totals, changes, titles_of
from libs.audit.vote_patterns import MINUTE_US, Pattern, PatternSearch
from libs.audit.voter_search import Kind, VoterInContest, find_voter
from libs.catalogue.contests.contest_mapper import sources_of
from libs.deployment.deployment import Deployment
from libs.tally.contest import MILLION, UNLIMITED, Renewal
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, command, command_group, moment, named
from services.cli.output import Block, Result, Rows, plural
from services.cli.vote_selection import INTERNAL, VoteSelection

app = command_group("Ask what a result would be without some votes or by other rules, and where to look.")

LIMITS: Final = {
    "free.max_participant": ("max_participant", "c-free"),
    "free.max_contest": ("max_contest", "c-free"),
    "paid.max_participant": ("max_participant", "c-paid"),
    "paid.max_contest": ("max_contest", "c-paid"),
    "free.weight": ("weights", "c-free"),
    "paid.weight": ("weights", "c-paid"),
}
RENEWAL: Final = "renew_free_vote.cooldown", "renew_free_vote.days_between"
REFUSED: Final = "Votes that were refused when sent are not in the log: how many more there would be is unknown."


@dataclass(frozen=True, slots=True)
class Answer:
    """The changes from the result that stands, or from the first moment, to what was asked."""

    contest_key: str
    title: str
    asked: str
    contest: Totals
    participants: Sequence[ParticipantEffect]
    unknown: Sequence[str]
    """What the log cannot tell."""


@command(app, "recount")
async def recount_contest(
    deployment: Deployment,
    contest: ContestKey,
    selection: VoteSelection,
    rules: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="RULE=NUMBER",
            help=f"Another rule: {', '.join((*LIMITS, *RENEWAL))} (-1: no limit; a cooldown in seconds).",
        ),
    ] = None,
) -> Result:
    """Recount a contest without the votes that match all given options, by the rules that --set gives.

    Nothing is changed, also sealed contests are recounted. What was cast is folded again in its order: a vote that
    other rules would have refused does not count. A weight multiplies the votes of free or paid sources. --source
    also takes an external source. `tally void` with the same options voids these votes.
    """
    found, config = await read_contest(deployment, contest)
    external = {selection.source} & sources_of(config).keys() - {*INTERNAL}
    internal = replace(selection, source=None) if external else selection
    internal.check_values()
    other = parsed_rules(rules or [])
    if not (selection.is_some or selection.everything or other):
        raise BadParameter("Select votes to leave out, or give --set.")
    matches = await internal.matcher(deployment, found)
    is_leaving = internal.is_some or internal.everything
    asked = await recount(
        deployment, contest, lambda cast: is_leaving and matches(cast), other, [name for name in external if name]
    )
    unknown = [REFUSED] if other.max_participant or other.max_contest or other.renewal else []
    return _answer(asked, "without these votes and by these rules", unknown)


@command(app)
async def between(
    deployment: Deployment,
    contest: ContestKey,
    first: Annotated[str, Argument(help="A time, like 2026-05-01T18:00:00Z.")],
    second: Annotated[str, Argument(help="A later time.")],
) -> Result:
    """Compare a contest's counts at two times, from all that was appended to the log until each.

    Participants and titles are the current ones, for a closed contest those of its closing.
    """
    times = moment(first, "FIRST"), moment(second, "SECOND")
    if times[0] >= times[1]:
        raise BadParameter("The second time must be later than the first.")
    return _answer(await compare_moments(deployment, contest, *times), f"from {first} to {second}", ())


@command(app)
async def patterns(
    deployment: Deployment,
    contest: ContestKey,
    least: Annotated[int, Option(min=1, help="Smallest number of votes of a pattern.")] = 10,
    most: Annotated[int, Option("--limit", min=1, max=1_000, help="Patterns of each kind at most.")] = 20,
) -> Result:
    """List votes that have something in common: places to look, and no verdict.

    Many votes from one address, by its pseudonym; minutes in which a participant has far more than its share of
    the contest's votes; voters who used up a limit within 10 seconds, by participant. Each has a command that
    shows what the result would be without these votes.
    """
    found, config = await read_contest(deployment, contest)
    search = PatternSearch()
    async with aclosing(folds(deployment, found, lambda: as_cast)) as partitions:
        async for one in partitions:
            search.add(one.stands)
    titles = titles_of(config)
    rows = [
        {
            "kind": one.kind,
            "participant": one.participant,
            "title": titles.get(one.participant, ""),
            "votes": one.votes,
            "voters": one.voters,
            "share": f"{one.share:.1%}",
            "first": timestamp(one.first),
            "last": timestamp(one.last),
            "command": command_of(contest, one),
        }
        for one in search.found(least, most)
    ]
    text: list[Block] = (
        [Rows([{name: row[name] for name in row if name != "command"} for row in rows])] if rows else []
    )
    text += [str(row["command"]) for row in rows]
    return Result(
        {"patterns": rows}, [*text, f"{plural(len(rows), 'pattern')}, of at least {plural(least, 'vote')}."]
    )


def command_of(contest: str, pattern: Pattern) -> str:
    """Return the command that shows what a pattern's votes do to the result."""
    if pattern.kind == "address":
        return f"tally ask recount {contest} --address={pattern.name}"
    first, after = pattern.first, pattern.last + 1
    if pattern.kind == "minute":
        first = first // MINUTE_US * MINUTE_US
        after = first + MINUTE_US
    return (
        f"tally ask recount {contest} --participant {pattern.participant} "
        f"--from {timestamp(first)} --until {timestamp(after)}"
    )


@command(app)
async def voter(
    deployment: Deployment,
    account: Annotated[str, Option(help="The account whose contests are searched.")],
    voter: Annotated[str | None, Option(help="The voter's id, as in the API.")] = None,
    anonymous: Annotated[str | None, Option(help="The anonymous voter's id.")] = None,
) -> Result:
    """List the contests of an account in which a voter has voted, with the numbers of votes.

    Contests whose secret was erased cannot be searched; they are named.
    """
    if (voter is None) == (anonymous is None):
        raise BadParameter("Give --voter or --anonymous.")
    kind: Kind = "voter" if anonymous is None else "anonymous"
    found, erased = await find_voter(deployment, account, kind, voter or anonymous or "")
    rows = [_voter_row(one) for one in found]
    text: list[Block] = [Rows(rows)] if rows else []
    text.append(f"{plural(len(rows), 'contest')} with votes of this voter.")
    text += [f"Contest {key} cannot be searched: its secret was erased." for key in erased]
    return Result({"contests": rows, "erased": erased}, text)


def _voter_row(one: VoterInContest) -> dict[str, Any]:
    return asdict(one) | {"first": timestamp(one.first), "last": timestamp(one.last)}


def parsed_rules(given: Sequence[str]) -> OtherRules:
    """Parse `--set` options. Raises `BadParameter`."""
    found: dict[str, dict[str, int]] = {"max_participant": {}, "max_contest": {}, "weights": {}}
    renewal: dict[str, int] = {}
    for text in given:
        name, _, number = text.partition("=")
        try:
            value = int(number)
        except ValueError:
            raise BadParameter(f"{text} is not RULE=NUMBER.", param_hint="--set") from None
        least = UNLIMITED if name in LIMITS and LIMITS[name][0] != "weights" else 0
        if value < least:
            raise BadParameter(f"{name} must be at least {least}.", param_hint="--set")
        if name in LIMITS:
            member, source = LIMITS[name]
            found[member][source] = value
        elif name in RENEWAL:
            renewal[name] = value
        else:
            known = ", ".join((*LIMITS, *RENEWAL))
            raise BadParameter(f"There is no rule {name}: one of {known}.", param_hint="--set")
    cooldown, days = (renewal.get(name, 0) for name in RENEWAL)
    return OtherRules(**found, renewal=Renewal(cooldown * MILLION, days) if renewal else None)


def _answer(asked: Asked, question: str, unknown: Sequence[str]) -> Result:
    totals, participants = changes(asked.config, asked.stands, asked.asked)
    title = "" if asked.config.contest is None else asked.config.contest.document.get("title") or ""
    answer = Answer(asked.contest.key, title, question, totals, participants, unknown)
    return Result(answer, _answer_text(answer))


def _answer_text(answer: Answer) -> Iterator[Block]:
    yield f"Contest {named(answer.contest_key, answer.title)}, {answer.asked}:"
    yield Rows(
        [
            {
                "participant": row.participant_key,
                "title": row.title,
                "votes": str(row.count),
                "rank": str(row.rank),
                "places": _places(row.rank),
                "voters": str(row.unique_voter_count),
            }
            for row in answer.participants
        ]
    )
    count, voters = answer.contest.count, answer.contest.unique_voter_count
    yield f"{count} votes, {voters} voters. Nothing was changed."
    yield from answer.unknown


def _places(rank: Pair) -> str:
    gained = rank.before - rank.after
    return f"{gained:+}" if gained else ""
