"""Readiness of the projector: the checks behind `/readyz`."""

from collections.abc import Iterable, Mapping

from libs.concurrency.tasks import first_success
from libs.contracts.votes_log import VotesLog
from libs.deployment.identity_guard import ServiceGuard
from libs.kafka.writer import LogWriter
from libs.projection.projector import Projector
from libs.projection.votes_projector import VotesProjector
from libs.views.votes.vote_views import VoteViews
from libs.web.server.health import Check
from services.projector.supervision import TaskSupervisor


def readiness_checks(
    guard: ServiceGuard,
    writer: LogWriter,
    views: VoteViews,
    votes: VotesLog,
    projectors: Iterable[Projector | VotesProjector],
    supervisor: TaskSupervisor,
) -> Mapping[str, Check]:
    """Return the checks by name: the servers, each projection's consumer, and each part of the process."""

    async def views_answer() -> None:
        await first_success(map(views.live.any_mark, views.live.groups(votes.numbers)))

    servers = {"deployment": guard.check, "log": writer.check, "views": views_answer}
    return {**servers, **{each.topic.name: each.check for each in projectors}, **supervisor.checks()}
