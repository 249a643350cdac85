"""The query service over real views, and functions that fold a catalogue and votes into them.

The catalogue's own reads are there, too, since the counts complete them.
"""

import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import orjson
from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from libs.catalogue.api_keys import PERMISSIONS, ApiKeyCache
from libs.catalogue.commands import CommandWriter
from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Table
from libs.catalogue.resource_table import PARTICIPANTS, RESOURCES
from libs.contracts.catalogue_events import (
    NO_RULES,
    CatalogueEvent,
    KeyIssued,
    KeyRevoked,
    KeyRules,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
)
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.position_token import PositionTokens
from libs.contracts.topics import catalogue_topic, legacy_test_namespace, source_log_key, votes_topic
from libs.deployment.deployment import open_deployment
from libs.kafka.writer import LogWriter
from libs.tally.events import ContestClosed, Event, LogCreated, SourceReported, VoteCast, VoteRemoved
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import Generations
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.votes.timeline import MINUTE_MS
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import HttpModule, build_app
from services.catalogue.routes import build_router
from services.catalogue.settings import Settings as CatalogueSettings
from services.query.app import open_module
from services.query.settings import Settings
from tests.support.builders import a_cast, a_report
from tests.support.freshness import make_fresh
from tests.support.permissive_guard import Unguarded
from tests.support.positions import position_tokens
from tests.support.vote_views import FoldInput, VoteViews, let_be_whole

PARTITIONS = 4
START_MS = 1_790_000_000_000
PUBLISHED = {"publish": "2020-01-01T00:00:00Z"}


def contest(**config: Any) -> dict[str, Any]:
    """A contest that runs since 2020, with these rules."""
    return PUBLISHED | {"title": "Song", "contest_config": {"start": "2020-01-01T00:00:00Z", **config}}


def closed_contest(approved: str, **mappings: dict[str, str]) -> dict[str, Any]:
    """A contest whose record keeps its first closing; external sources by their mappings then."""
    registration = {"title": "Sms", "is_in_total": True, "mode": "cumulative", "retired": False, "registered": 1}
    sources = {name: registration | {"mapping": mapping} for name, mapping in mappings.items()}
    participants = [[key, "approved", None] for key in approved]
    closing = {"seq": 1, "end": 1, "title": "Song", "participants": participants, "sources": sources}
    return contest(end="2021-01-01T00:00:00Z") | {"closing": closing}


class Catalogue:
    """Folds events of one env's catalogue into its view, record by record."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.views = CatalogueViews(valkey, namespace)
        self._topic = catalogue_topic(namespace)
        self._next: dict[int, int] = defaultdict(int)
        self._at = START_MS * 1000

    async def begin(self) -> None:
        """The log of every partition begins, and its view is fresh."""
        for partition in range(self._topic.partitions):
            entries = [(LogRecord(0, START_MS, b""), LogCreated("log"))]
            await self.views.apply(partition, Position("log", 0), entries, 1)
            await make_fresh(self.views.fresh, partition)
            self._next[partition] = 1

    async def fold(self, event: CatalogueEvent, account: str) -> int:
        return await self.fold_all([event], account)

    async def fold_all(self, events: list[CatalogueEvent], account: str) -> int:
        """Fold them in one step; the offset of the last."""
        partition = self._topic.partition_of(account)
        offset, at_ms = self._next[partition], self._at // 1000 + 1
        entries = [(LogRecord(place, at_ms, b""), event) for place, event in enumerate(events, offset)]
        self._next[partition] = end = offset + len(entries)
        await self.views.apply(partition, Position("log", offset), entries, end)
        return end - 1

    def _command(self, account: str) -> dict[str, Any]:
        self._at += 1_000_000
        return {"account": account, "command_id": secrets.token_hex(8), "at": self._at}

    async def key(
        self, account: str = "acme", permissions: tuple[str, ...] = PERMISSIONS, rules: KeyRules = NO_RULES
    ) -> str:
        token = f"tk_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
        await self.fold(self._issued(token, account, permissions, rules), account)
        return token

    async def revoke(self, token: str, account: str = "acme") -> None:
        await self.fold(self._revoked(token, account), account)

    async def restrict(self, token: str, rules: KeyRules, account: str = "acme") -> None:
        """Give a key other rules, in one step: as though it had been revoked and issued again."""
        events = [self._revoked(token, account), self._issued(token, account, PERMISSIONS, rules)]
        await self.fold_all(events, account)

    def _issued(self, token: str, account: str, permissions: tuple[str, ...], rules: KeyRules) -> CatalogueEvent:
        key_id, digest = token.split("_")[1], sha256(token.encode()).hexdigest()
        command = self._command(account)
        return KeyIssued(**command, key_id=key_id, sha256=digest, permissions=permissions, rules=rules)

    def _revoked(self, token: str, account: str) -> CatalogueEvent:
        return KeyRevoked(**self._command(account), key_id=token.split("_")[1])

    async def create(self, resource: str, key: str, document: dict[str, Any], account: str = "acme") -> int:
        event = RecordCreated(
            **self._command(account), resource=resource, key=key, record=text(document), contest=key
        )
        return await self.fold(event, account)

    async def enter(self, contest: str, key: str, account: str = "acme", **document: Any) -> int:
        """A new participant, approved unless said otherwise."""
        event = RecordCreated(
            **self._command(account),
            resource="participants",
            key=key,
            record=text({"status": "approved", "title": key.upper()} | document),
            parent=("contests", contest),
            contest=contest,
        )
        return await self.fold(event, account)

    async def register(self, contest: str, source: str, account: str = "acme", **document: Any) -> int:
        """An external source of the contest."""
        event = RecordCreated(
            **self._command(account),
            resource="vote_sources",
            key=f"{contest}~{source}",
            record=text(document),
            parent=("contests", contest),
            contest=contest,
        )
        return await self.fold(event, account)

    async def change(
        self, resource: str, key: str, document: dict[str, Any], contest: str, account: str = "acme"
    ) -> int:
        stored = await self.views.get(account, resource, key)
        assert stored is not None
        event = RecordChanged(
            **self._command(account),
            resource=resource,
            key=key,
            record=text(document),
            contest=contest,
            expected_version=stored.version,
        )
        return await self.fold(event, account)

    async def delete(self, resource: str, key: str, contest: str, account: str = "acme") -> int:
        return await self.fold(
            RecordDeleted(**self._command(account), resource=resource, key=key, contest=contest), account
        )


class QueryEnvironment:
    """`client` speaks to the service, `app`; `production` and `test` are the two catalogues.

    `clock_ms` and the offset are an event's append time.
    """

    def __init__(
        self, valkey: ValkeyClient, namespace: str, settings: Settings, app: FastAPI, client: httpx.AsyncClient
    ) -> None:
        self.app = app
        self.client = client
        self.settings = settings
        self.tokens: PositionTokens
        self.views = VoteViews(valkey, namespace, settings.partitions)
        self.production = Catalogue(valkey, namespace)
        self.test = Catalogue(valkey, legacy_test_namespace(namespace))
        self.clock_ms = START_MS
        self._valkey = valkey
        self._namespace = namespace
        self._topic = votes_topic(namespace, settings.partitions)
        self._next: dict[int, int] = defaultdict(int)
        self._ids = 0

    async def vote(self, participant: str, count: int = 1, *, voter: str = "ann", **changes: Any) -> str:
        """Fold one vote; the position at which it is in."""
        return await self.fold(self.cast(participant, count, voter=voter, **changes))

    def cast(self, participant: str, count: int = 1, *, voter: str = "ann", **changes: Any) -> VoteCast:
        self._ids += 1
        return a_cast(participant, count, voter=voter, vote_id=f"v{self._ids}", **({"contest": "song"} | changes))

    def position_after(self, event: VoteCast) -> str:
        """The token that its writer would receive."""
        partition = self._topic.partition_of(event.voter)
        return self.tokens.encode({partition: self._next[partition] + 1})

    async def report(self, source: str, *counts: tuple[str, int, int, int], **changes: Any) -> str:
        """Fold what an external source reports, by its own ids."""
        self._ids += 1
        return await self.fold(
            a_report(f"r{self._ids}", *counts, **({"contest": "song", "source": source} | changes))
        )

    async def close(self, seq: int = 1, contest: str = "song") -> None:
        """Fold the mark of a closing into every partition; those of external sources come by themselves."""
        for partition in range(self._topic.partitions):
            await self.fold(ContestClosed(contest, seq), partition)

    async def fold(self, event: Event, partition: int | None = None) -> str:
        """Into the partition that it belongs to, unless that is named."""
        if isinstance(event, (VoteCast, VoteRemoved)):
            partition = self._topic.partition_of(event.voter)
        elif isinstance(event, (SourceReported, ContestClosed)) and event.source is not None:
            partition = self._topic.partition_of(source_log_key(event.contest, event.source))
        assert partition is not None
        offset = self._next[partition]
        item = FoldInput(event, offset, self.clock_ms + offset)
        await self.views.apply(partition, Position("log", offset), [item], offset + 1)
        self._next[partition] = offset + 1
        return self.tokens.encode({partition: offset + 1})

    async def swap_in_other_votes(self) -> None:
        """Swap in a generation of one voter's partition, in which three votes count 5 each, a minute apart."""
        topic, valkey, namespace = self._topic, self.views._valkey, self.settings.namespace
        generations = Generations(valkey, namespace, "votes", topic)
        partition = topic.partition_of(self.cast("a").voter)
        assert await generations.open(partition, 2)
        rebuilt = VoteViews(valkey, namespace, topic.partitions, generation=2)
        casts = [FoldInput(self.cast("a", 5), at, START_MS + at * MINUTE_MS) for at in range(3)]
        await rebuilt.apply(partition, Position("log", 0), casts, 3)
        assert (await generations.swap(partition, 2)).done

    async def lose_everything(self) -> None:
        """Delete all of its keys, as an emptied Valkey has."""
        await self._valkey.call("DEL", *(await self._valkey.call("KEYS", f"{self._namespace}*")))

    def head(self) -> str:
        """The position up to which everything was folded."""
        return self.tokens.encode({partition: offset for partition, offset in self._next.items() if offset})

    async def get(self, path: str, key: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers={"authorization": f"Bearer {key}"} | headers)

    async def counts(
        self, key: str, contest: str = "song", query: str = "?sources=true", position: str | None = None
    ) -> dict[str, Any]:
        """The vote count record; with everything before `position` in it, and in all other reads from then on."""
        query += "" if position is None else f"&min_position={position}"
        response = await self.get(f"/contests/{contest}/vote_updates/{query}", key)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def legacy(self, path: str, key: str, brand: str = "acme") -> httpx.Response:
        return await self.client.get(path, headers={"service-brand": brand, "service-key": key})


async def song(env: QueryEnvironment, participants: str = "ab", **config: Any) -> str:
    """A running contest with approved participants; a key that may do everything."""
    await env.production.create("contests", "song", contest(**config))
    for participant in participants:
        await env.production.enter("song", participant)
    return await env.production.key()


@asynccontextmanager
async def open_environment(
    valkey_address: str, namespace: str, **settings: Any
) -> AsyncIterator[QueryEnvironment]:
    valkey = open_valkey(valkey_address)
    await load_functions(valkey)
    with TemporaryDirectory() as storage:
        wanted: dict[str, Any] = {"partitions": PARTITIONS, "storage_url": storage} | settings
        given = Settings(valkey_url=valkey_address, namespace=namespace, **wanted)
        async with (
            open_deployment(given, guard=Unguarded) as servers,
            open_module(given, servers) as http_module,
        ):
            app = build_app("query", [http_module, _catalogue(valkey, namespace, http_module)])
            transport = httpx.ASGITransport(HttpMiddleware(app, http_module.hot))
            async with httpx.AsyncClient(transport=transport, base_url="http://query") as client:
                env = QueryEnvironment(valkey, namespace, given, app, client)
                env.tokens = await position_tokens(storage)
                for catalogue in env.production, env.test:
                    await catalogue.begin()
                await let_be_whole(env.views, range(PARTITIONS))
                yield env
    await valkey.close()


def _catalogue(valkey: ValkeyClient, namespace: str, query: HttpModule) -> HttpModule:
    """Return the reads of contests and participants. Writes would need a log."""

    def router() -> APIRouter:
        views = CatalogueViews(valkey, namespace)
        writer, keys = LogWriter(CatalogueSettings()), ApiKeyCache(views)
        commands = CommandWriter(catalogue_topic(namespace), writer, views)
        record_service = RecordService(Table(RESOURCES["contests"], PARTICIPANTS), views, commands)
        return build_router(record_service, Authenticator(keys, Proxies()), query.enrichers)

    return HttpModule(routes=[Records(router)])


class Records(BaseRoute):
    """The routes of records, built at the first request: that takes long, and most tests read counts only."""

    def __init__(self, router: Callable[[], APIRouter]) -> None:
        self._router = cache(router)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope["path"].startswith(("/contests", "/participants")):
            return Match.NONE, {}
        found = [(route.matches(scope), route) for route in self._router().routes]
        (match, child_scope), route = max(found, key=lambda each: each[0][0].value)
        return match, {**child_scope, "record_route": route}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["record_route"].handle(scope, receive, send)


def text(document: dict[str, Any]) -> str:
    return orjson.dumps(document).decode()
