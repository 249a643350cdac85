"""Legacy routes of one environment; the query service reads contests and participants with their counts."""

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter

from services.catalogue.legacy.articles import add_articles
from services.catalogue.legacy.contests import add_contests
from services.catalogue.legacy.conventions import add_conventions
from services.catalogue.legacy.feeds import add_feeds
from services.catalogue.legacy.images import add_images
from services.catalogue.legacy.routing import LegacyEnvironment, LegacyRoutes
from services.catalogue.legacy.timeslots import add_timeslots

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
