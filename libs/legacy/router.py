"""Legacy routes of one environment; the query service reads contests and participants with their counts."""

from typing import Final

from fastapi import APIRouter

from libs.legacy.articles import Articles
from libs.legacy.contests import ContestHandlers
from libs.legacy.conventions import Conventions
from libs.legacy.feeds import Feeds
from libs.legacy.images import ImageHandlers
from libs.legacy.routing import LegacyEnvironment, LegacyRoutes
from libs.legacy.timeslots import Timeslots

HANDLERS: Final = (ContestHandlers, Articles, Conventions, Timeslots, Feeds, ImageHandlers)


def legacy_router(environment: LegacyEnvironment) -> APIRouter:
    routes = LegacyRoutes(environment.base, environment.auth, environment.views)
    for handlers in HANDLERS:
        handlers(environment).add_to(routes)
    return routes.router
