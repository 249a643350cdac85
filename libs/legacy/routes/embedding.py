"""Loads the records that articles embed."""

import asyncio
from collections.abc import Iterable, Sequence

from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS, SURVEYS
from libs.contracts.catalogue_events import Stored
from libs.legacy.parameters.articles import Embedded, article_read, named_by
from libs.legacy.parameters.participants import images_at, images_of, participant_read
from libs.legacy.routes.contests import contest_shape
from libs.legacy.routes.route_builder import Call, LegacyEnvironment
from libs.tally.errors import NotFound


async def shown_articles(environment: LegacyEnvironment, call: Call, articles: Sequence[Stored]) -> list[Document]:
    """Return articles in their read shape, without references to deleted records or other accounts' records."""
    named: dict[str, set[str]] = {}
    for resource, key in (ref for stored in articles for ref in named_by(stored)):
        named.setdefault(resource, set()).add(key)
    images, contests, participants, surveys = await asyncio.gather(
        images_at(environment.views, call.account, named.get("images", ())),
        _contests(environment, call, named.get("contests", ())),
        _participants(environment, call, named.get("participants", ())),
        _surveys(environment, call, named.get("surveys", ())),
    )
    embedded, now = Embedded(images, contests, participants, surveys), environment.now()
    return [article_read(call.account, stored, embedded, now) for stored in articles]


async def _contests(environment: LegacyEnvironment, call: Call, keys: Iterable[str]) -> dict[str, Document]:
    found = await asyncio.gather(
        *(contest_shape(environment, call.account, key) for key in keys), return_exceptions=True
    )
    shapes = []
    for each in found:
        if isinstance(each, dict):
            shapes.append(each)
        elif not isinstance(each, NotFound):
            raise each
    await environment.complete(call, CONTESTS, shapes)
    return {shape["contest_id"]: shape for shape in shapes}


async def _participants(environment: LegacyEnvironment, call: Call, keys: Iterable[str]) -> dict[str, Document]:
    found = await _records(environment, call, PARTICIPANTS.name, keys)
    images = await images_of(environment.views, call.account, *found)
    shapes = [participant_read(call.account, stored, None, images) for stored in found]
    await environment.complete(call, PARTICIPANTS, shapes)
    return {shape["participant_key"]: shape for shape in shapes}


async def _surveys(environment: LegacyEnvironment, call: Call, keys: Iterable[str]) -> dict[str, Document]:
    """Return surveys in the current API's shape: the legacy API has none of its own."""
    return {stored.key: SURVEYS.show(stored) for stored in await _records(environment, call, SURVEYS.name, keys)}


async def _records(environment: LegacyEnvironment, call: Call, resource: str, keys: Iterable[str]) -> list[Stored]:
    found = await asyncio.gather(*(environment.views.get(call.account, resource, key) for key in keys))
    return [stored for stored in found if stored is not None]
