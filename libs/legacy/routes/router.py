"""Legacy routes of one environment; the query service reads contests and participants with their counts."""

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter

from libs.legacy.routes.articles import add_articles
from libs.legacy.routes.contests import add_contests
from libs.legacy.routes.conventions import add_conventions
from libs.legacy.routes.feeds import add_feeds
from libs.legacy.routes.images import add_images
from libs.legacy.routes.routing import LegacyEnvironment, LegacyRoutes
from libs.legacy.routes.timeslots import add_timeslots

RESOURCES: Final[tuple[Callable[[LegacyRoutes, LegacyEnvironment], None], ...]] = (
    add_contests,
    add_articles,
    add_conventions,
    add_timeslots,
    add_feeds,
    add_images,
)


def legacy_router(environment: LegacyEnvironment) -> APIRouter:
    routes = LegacyRoutes(environment.base, environment.auth)
    for add in RESOURCES:
        add(routes, environment)
    return routes.router
