"""`tally lost`: lists records that the log lost, and the votes among them."""

from collections.abc import Sequence
from typing import Any, Final

from libs.audit.lost_records import Loss, LostVote, losses, lost_votes
from libs.deployment.deployment import Deployment
from libs.tally.errors import ViewsUnavailable
from libs.tally.time_conversion import timestamp
from libs.views.generations.generations import ProjectionName
from libs.views.valkey.function_loading import load_functions
from libs.views.votes.vote_views import VoteViews
from services.cli.command_decorator import Execute, OneContest, command, command_group, titles_by_key
from services.cli.operator_actions import record_action
from services.cli.output import Result, plural

LOSSES: Final = "topic partition first end records last_left noticed told"
VOTES: Final = "contest title partition offset accepted_at voter vote participant votes recorded_again"
NOTHING: Final = "The log lost no record that a view had processed, or all losses were acknowledged."

app = command_group("Records that the log lost after they were acknowledged, as after a power cut.")


async def _losses(deployment: Deployment) -> list[tuple[ProjectionName, Loss]]:
    return [
        (topic, loss)
        for topic, generations in deployment.projections.items()
        async for loss in losses(deployment.reader, generations)
    ]


@command(app, "list")
async def list_(deployment: Deployment) -> Result:
    """List the losses: offsets, the time of the last record that is left, and when a view noticed it.

    `told` says whether the log itself tells of it, by an event `LogLost` in the same partition.
    """
    rows = [
        {
            "topic": topic,
            "partition": loss.partition,
            "first": loss.first,
            "end": loss.end,
            "records": loss.end - loss.first,
            "last_left": timestamp(loss.last_left_ms * 1000),
            "noticed": timestamp(loss.noticed_at),
            "told": loss.generation.is_told,
        }
        for topic, loss in await _losses(deployment)
    ]
    return Result.listing("losses", rows, LOSSES, none=NOTHING)


@command(app)
async def votes(deployment: Deployment, contest: OneContest = None) -> Result:
    """List the votes that the log lost, of one contest or all: their receipts no longer hold.

    A vote is named by the digest of its id, and its voter by the pseudonym. One that its client has sent again
    since is `recorded_again`: it counts.
    """
    found: list[tuple[int, LostVote]] = []
    for topic, loss in await _losses(deployment):
        if topic is ProjectionName.VOTES:
            views = views_of(deployment, loss)
            found += [
                (loss.partition, vote)
                async for vote in lost_votes(views, loss.partition, loss.generation)
                if contest in (None, vote.contest)
            ]
    titles = await titles_by_key(deployment, (vote.contest for _, vote in found))
    rows: list[dict[str, Any]] = [
        {
            "contest": vote.contest,
            "title": titles[vote.contest],
            "partition": partition,
            "offset": vote.offset,
            "accepted_at": timestamp(vote.accepted_at),
            "voter": vote.voter,
            "vote": vote.digest.hex(),
            "participant": vote.participant,
            "votes": vote.votes,
            "recorded_again": await deployment.vote_views.has(partition, vote.contest, vote.voter, vote.digest),
        }
        for partition, vote in sorted(found, key=lambda one: one[1].accepted_at)
    ]
    return Result.listing("votes", rows, VOTES, none="No vote is known to be lost.")


def views_of(deployment: Deployment, loss: Loss) -> VoteViews:
    place = deployment.valkey, deployment.namespace, deployment.votes
    return VoteViews(*place, generation=loss.generation.number)


@command(app)
async def acknowledge(deployment: Deployment, execute: Execute = False) -> Result:
    """Delete the copies that name what was lost, so that `tally status` no longer lists the losses.

    Save the lists before, if they are still needed: only the numbers of votes by contest stay, in the log.
    """
    await load_functions(deployment.valkey)
    found = await _losses(deployment)
    if execute and found:
        untold = [loss for _, loss in found if not loss.generation.is_told]
        if untold:
            raise ViewsUnavailable("The log does not tell of a loss yet: is a projector running?", retry_after_s=1)
        await record_action(deployment, "losses acknowledged", losses=" ".join(map(_named, found)))
        for topic, loss in found:
            await deployment.projections[topic].drop(loss.partition, loss.generation.number)
        for topic in {topic for topic, _ in found}:
            await deployment.projections[topic].sweep()
    return _acknowledged(found, execute=execute)


def _named(found: tuple[ProjectionName, Loss]) -> str:
    topic, loss = found
    return f"{topic}/{loss.partition}:{loss.first}-{loss.end}"


def _acknowledged(found: Sequence[tuple[ProjectionName, Loss]], *, execute: bool) -> Result:
    text = [f"{_named(one)}: {plural(one[1].end - one[1].first, 'record')}" for one in found]
    members = {"losses": [_named(one) for one in found]}
    return Result.change(
        members, text, execute, "Acknowledged.", "acknowledge them", nothing="" if found else NOTHING
    )
