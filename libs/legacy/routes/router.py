"""Legacy routes of one environment; the query service reads contests and participants with their counts."""

from typing import Final

from fastapi import APIRouter

from libs.legacy.routes.articles import Articles
from libs.legacy.routes.contests import Contests
from libs.legacy.routes.conventions import Conventions
from libs.legacy.routes.feeds import Feeds
from libs.legacy.routes.images import ImageHandlers
from libs.legacy.routes.route_builder import LegacyEnvironment, LegacyRoutes
from libs.legacy.routes.timeslots import Timeslots

HANDLERS: Final = (Contests, Articles, Conventions, Timeslots, Feeds, ImageHandlers)


def legacy_router(environment: LegacyEnvironment) -> APIRouter:
    routes = LegacyRoutes(environment.base, environment.auth, environment.views)
    for handlers in HANDLERS:
        handlers(environment).add_to(routes)
    return routes.router
