"""Readiness of the projector: the checks behind `/readyz`."""

from collections.abc import Iterable, Mapping

from libs.concurrency.tasks import first_success
from libs.deployment.deployment import Deployment
from libs.projection.projector import Projector
from libs.projection.votes_projector import VotesProjector
from libs.web.server.health import Check
from services.projector.supervision import TaskSupervisor


def readiness_checks(
    deployment: Deployment, projectors: Iterable[Projector | VotesProjector], supervisor: TaskSupervisor
) -> Mapping[str, Check]:
    """Return the checks by name: the servers, each projection's consumer, and each part of the process."""

    async def views_answer() -> None:
        live = deployment.vote_views.live
        await first_success(map(live.any_mark, live.groups(deployment.votes.numbers)))

    servers = {"deployment": deployment.guard.check, "log": deployment.writer.check, "views": views_answer}
    return {**servers, **{each.topic.name: each.check for each in projectors}, **supervisor.checks()}
