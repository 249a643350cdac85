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
from tests.support.builders.contests import a_cast, a_report
from tests.support.clients.positions import position_tokens
from tests.support.clients.vote_views import FoldInput, VoteViews, let_be_whole
from tests.support.servers.freshness import make_fresh
from tests.support.servers.permissive_guard import Unguarded

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

    async def fold(self, account: str, *events: CatalogueEvent) -> None:
        """Fold events of the account in one step."""
        partition = self._topic.partition_of(account)
        offset, at_ms = self._next[partition], self._at // 1000 + 1
        entries = [(LogRecord(place, at_ms, b""), event) for place, event in enumerate(events, offset)]
        self._next[partition] = end = offset + len(entries)
        await self.views.apply(partition, Position("log", offset), entries, end)

    def _command(self, account: str) -> dict[str, Any]:
        self._at += 1_000_000
        return {"account": account, "command_id": secrets.token_hex(8), "at": self._at}

    async def key(
        self, account: str = "acme", permissions: tuple[str, ...] = PERMISSIONS, rules: KeyRules = NO_RULES
    ) -> str:
        token = f"tk_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
        await self.fold(account, self._issued(token, account, permissions, rules))
        return token

    async def reader(self) -> str:
        """A key for results that are not hidden."""
        return await self.key(permissions=("results:read",))

    async def revoke(self, token: str) -> None:
        await self.fold("acme", self._revoked(token))

    async def restrict(self, token: str, rules: KeyRules) -> None:
        """Give a key other rules, in one step: as though it had been revoked and issued again."""
        await self.fold("acme", self._revoked(token), self._issued(token, "acme", PERMISSIONS, rules))

    def _issued(self, token: str, account: str, permissions: tuple[str, ...], rules: KeyRules) -> CatalogueEvent:
        key_id, digest = token.split("_")[1], sha256(token.encode()).hexdigest()
        command = self._command(account)
        return KeyIssued(**command, key_id=key_id, sha256=digest, permissions=permissions, rules=rules)

    def _revoked(self, token: str) -> CatalogueEvent:
        return KeyRevoked(**self._command("acme"), key_id=token.split("_")[1])

    async def create(
        self, resource: str, key: str, document: dict[str, Any], account: str = "acme", contest: str = ""
    ) -> None:
        """A new record, of a `contest` unless it is one."""
        record = orjson.dumps(document).decode()
        its: dict[str, Any] = {"resource": resource, "key": key, "record": record, "contest": contest or key}
        parent = ("contests", contest) if contest else None
        await self.fold(account, RecordCreated(**self._command(account), **its, parent=parent))

    async def enter(self, contest: str, key: str, account: str = "acme", **document: Any) -> None:
        """A new participant, approved unless said otherwise."""
        approved = {"status": "approved", "title": key.upper()}
        await self.create("participants", key, approved | document, account, contest)

    async def register(self, contest: str, source: str, account: str = "acme", **document: Any) -> None:
        """An external source of the contest."""
        await self.create("vote_sources", f"{contest}~{source}", document, account, contest)

    async def change(
        self, resource: str, key: str, document: dict[str, Any], contest: str = "song", account: str = "acme"
    ) -> None:
        stored = await self.views.get(account, resource, key)
        assert stored is not None
        record = orjson.dumps(document).decode()
        its: dict[str, Any] = {"resource": resource, "key": key, "record": record, "contest": contest}
        await self.fold(account, RecordChanged(**self._command(account), **its, expected_version=stored.version))

    async def delete(self, resource: str, key: str, contest: str = "song", account: str = "acme") -> None:
        await self.fold(
            account, RecordDeleted(**self._command(account), resource=resource, key=key, contest=contest)
        )


class QueryEnvironment:
    """`client` speaks to the service: `app` behind its `front`; `production` and `test` are the two catalogues.

    `clock_ms` and the offset are an event's append time.
    """

    def __init__(self, valkey: ValkeyClient, settings: Settings, app: FastAPI, front: HttpMiddleware) -> None:
        namespace = settings.namespace
        self.app = app
        self.front = front
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://query")
        self.settings = settings
        self.tokens: PositionTokens
        self.views = VoteViews(valkey, namespace, settings.partitions)
        self.production = Catalogue(valkey, namespace)
        self.test = Catalogue(valkey, legacy_test_namespace(namespace))
        self.clock_ms = START_MS
        self._valkey = valkey
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

    async def report(self, source: str, *counts: tuple[str, int, int, int]) -> str:
        """Fold what an external source reports, by its own ids."""
        self._ids += 1
        return await self.fold(a_report(f"r{self._ids}", *counts, contest="song", source=source))

    async def close(self) -> None:
        """Fold the mark of the closing into every partition; those of external sources come by themselves."""
        for partition in range(self._topic.partitions):
            await self.fold(ContestClosed("song", 1), partition)

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
        topic, valkey, namespace = self._topic, self._valkey, self.settings.namespace
        generations = Generations(valkey, namespace, "votes", topic)
        partition = topic.partition_of(self.cast("a").voter)
        assert await generations.open(partition, 2)
        rebuilt = VoteViews(valkey, namespace, topic.partitions, generation=2)
        casts = [FoldInput(self.cast("a", 5), at, START_MS + at * MINUTE_MS) for at in range(3)]
        await rebuilt.apply(partition, Position("log", 0), casts, 3)
        assert (await generations.swap(partition, 2)).done

    async def lose_everything(self) -> None:
        """Delete all of its keys, as an emptied Valkey has."""
        await self._valkey.call("DEL", *(await self._valkey.call("KEYS", f"{self.settings.namespace}*")))

    def head(self) -> str:
        """The position up to which everything was folded."""
        return self.tokens.encode({partition: offset for partition, offset in self._next.items() if offset})

    async def get(self, path: str, key: str = "", **headers: str) -> httpx.Response:
        """The answer to a key, or to a caller without one."""
        bearer = {"authorization": f"Bearer {key}"} if key else {}
        return await self.client.get(path, headers=bearer | headers)

    async def read(self, path: str, key: str = "", **headers: str) -> Any:
        """The record of an answer, which must be 200."""
        response = await self.get(path, key, **headers)
        assert response.status_code == 200, response.text
        return response.json()

    async def counts(self, key: str, query: str = "?sources=true", position: str | None = None) -> dict[str, Any]:
        """The vote count record; with everything before `position` in it, and in all other reads from then on."""
        query += "" if position is None else f"&min_position={position}"
        found: dict[str, Any] = await self.read(f"/contests/song/vote_updates/{query}", key)
        return found

    async def legacy(self, path: str, key: str) -> httpx.Response:
        return await self.client.get(path, headers={"service-brand": "acme", "service-key": key})


def figures(counted: dict[str, Any]) -> tuple[int, int, int]:
    """Votes, distinct voters and anonymous ones of a record, or of a part of it."""
    return counted["count"], counted["unique_voter_count"], counted["anonymous_voter_count"]


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
            env = QueryEnvironment(valkey, given, app, HttpMiddleware(app, http_module.hot))
            async with env.client:
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
