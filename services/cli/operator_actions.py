"""Records operators' actions, with the operator as the actor."""

import time

from libs.contracts.actors import CURRENT
from libs.contracts.catalogue_events import OperatorActed, catalogue_codec
from libs.deployment.deployment import Deployment

PARTITION = 0
"""Catalogue partition for actions, which belong to no account."""


async def record_action(deployment: Deployment, action: str, **arguments: object) -> None:
    """Record an operator's action before executing it; arguments that are None are omitted.

    Raises `LogUnavailable`: an action that cannot be recorded must not be executed.
    """
    given = {name: str(value) for name, value in arguments.items() if value is not None}
    event = OperatorActed(action=action, arguments=given, at=time.time_ns() // 1000, actor=CURRENT.get())
    log = await deployment.log(check=False)
    await log.append(deployment.catalogue.topic.name, PARTITION, catalogue_codec.encode(event))
