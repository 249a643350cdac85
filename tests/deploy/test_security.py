"""TLS, SASL and least privilege per service, by the files of `deploy/security` on real servers."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from pydantic import ValidationError

from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.reader import LogReader
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.views.valkey.client import Coalescer, ValkeyClient, connect
from libs.views.valkey.connection import NotPermitted
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.hash_tags import key_base
from libs.views.valkey.settings import ValkeySettings
from services.cli import bootstrap
from tests.support.clients.vote_views import VoteViews
from tests.support.servers.deployments import FEW_PARTITIONS
from tests.support.servers.secured import Secured, environment, secured_servers, terminator

NAMESPACE = "secured"


@pytest.fixture(scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    async with secured_servers(tmp_path_factory.mktemp("servers"), NAMESPACE) as running:
        yield running


@pytest.fixture(scope="module")
async def prepared(servers: Secured, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Topics and functions, made by the operator. The tests marked `secured` run all services on such servers."""
    with environment(servers.environment("operator")):
        storage_url = tmp_path_factory.mktemp("objects").as_uri()
        await bootstrap.prepare(
            DeploymentAddresses(servers.kafka, servers.valkey, NAMESPACE, FEW_PARTITIONS, storage_url, {})
        )


def kafka_of(servers: Secured, part: str, **changes: str) -> KafkaSettings:
    with environment(servers.environment(part) | {"TALLY_KAFKA_REQUEST_TIMEOUT_MS": "2000"} | changes):
        return KafkaSettings()


@asynccontextmanager
async def valkey_of(servers: Secured, part: str, **changes: str) -> AsyncIterator[ValkeyClient]:
    with environment(servers.environment(part) | changes):
        valkey = open_valkey(ValkeySettings().valkey_url)
    try:
        yield valkey
    finally:
        await valkey.close()


async def append(settings: KafkaSettings, topic: str) -> None:
    """Raises what Kafka answers to a record in a partition that nothing else here uses."""
    async with AIOKafkaProducer(**connection(settings)) as producer:
        await producer.send_and_wait(topic, b"{}", partition=3)


@pytest.mark.parametrize("part", ["ingestion", "query", "dashboard"])
async def test_only_the_catalogue_the_projector_and_the_operator_could_issue_api_keys(
    servers: Secured, prepared: None, part: str
) -> None:
    for topic in (f"{NAMESPACE}.catalogue", f"{NAMESPACE}-test.catalogue"):
        with pytest.raises(TopicAuthorizationFailedError):
            await append(kafka_of(servers, part), topic)
    async with valkey_of(servers, part) as valkey:
        for namespace in (NAMESPACE, f"{NAMESPACE}-test"):
            key = f"{key_base(namespace, 'catalogue', 0, CATALOGUE_PARTITIONS)}:keys"
            with pytest.raises(NotPermitted):
                await valkey.call("HSET", key, "id", "forged")


@pytest.mark.parametrize("part", ["query", "dashboard", "catalogue"])
async def test_parts_that_take_no_votes_can_write_none(servers: Secured, prepared: None, part: str) -> None:
    with pytest.raises(TopicAuthorizationFailedError):
        await append(kafka_of(servers, part), f"{NAMESPACE}.votes")
    async with valkey_of(servers, part) as valkey:
        with pytest.raises(NotPermitted):
            await VoteViews(valkey, NAMESPACE, FEW_PARTITIONS).reserve(0, [])
        assert (await VoteViews(valkey, NAMESPACE, FEW_PARTITIONS).state(0)).pending == 0


@pytest.mark.parametrize("part", ["ingestion", "query", "catalogue", "dashboard", "gateway"])
async def test_a_part_that_may_not_load_functions_starts_without_and_replaces_none(
    servers: Secured, prepared: None, part: str
) -> None:
    async with valkey_of(servers, part) as valkey:
        for command in (("FUNCTION", "LOAD", "REPLACE", "#!lua name=tally_votes\n"), ("FLUSHALL",)):
            with pytest.raises(NotPermitted):
                await valkey.call(*command)
        await load_functions(valkey)


@pytest.mark.parametrize(
    "changes",
    [
        {"TALLY_KAFKA_PASSWORD": "guessed"},
        {"TALLY_KAFKA_USERNAME": "nobody"},
        # as a client that knows none but the public authorities
        {"TALLY_KAFKA_CA_FILE": ssl.get_default_verify_paths().openssl_cafile},
    ],
)
async def test_kafka_is_not_reached_with_a_wrong_password_or_by_a_client_that_does_not_trust_it(
    servers: Secured, changes: dict[str, str]
) -> None:
    async with LogReader(kafka_of(servers, "operator", **changes)) as reader:
        with pytest.raises((LogUnavailable, KafkaError)):
            await reader.end_offsets(f"{NAMESPACE}.votes", [0])


async def test_both_scram_mechanisms_serve(servers: Secured, prepared: None) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        async with LogReader(kafka_of(servers, "query", TALLY_KAFKA_SASL_MECHANISM=mechanism)) as reader:
            assert await reader.end_offsets(f"{NAMESPACE}.votes", [0])


@pytest.mark.parametrize("changes", [{"TALLY_VALKEY_PASSWORD": "guessed"}, {"TALLY_VALKEY_USERNAME": "default"}])
async def test_valkey_is_not_reached_with_a_wrong_password(servers: Secured, changes: dict[str, str]) -> None:
    async with valkey_of(servers, "operator", **changes) as valkey:
        with pytest.raises(ViewsUnavailable):
            await valkey.call("PING")


async def test_valkey_is_reached_with_the_certificate_that_it_asks_for_and_not_without(servers: Secured) -> None:
    certificates, port = servers.certificates, int(servers.plain_valkey.rpartition(":")[2].partition("/")[0])
    with terminator(certificates, port, mutual=True) as tls_port:
        given = servers.environment("operator") | {"TALLY_VALKEY_URL": f"rediss://127.0.0.1:{tls_port}/0"}
        with environment(given):
            stranger = Coalescer(connect(ValkeySettings()))
        with environment(given | {"TALLY_VALKEY_CERTIFICATE_FILE": str(certificates.client)}):
            known = Coalescer(connect(ValkeySettings()))
        with pytest.raises(ViewsUnavailable):
            await stranger.call("PING")
        assert await known.call("PING") == b"PONG"
        await asyncio.gather(stranger.close(), known.close())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"TALLY_KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "TALLY_KAFKA_USERNAME": "u"}, "TALLY_KAFKA_USERNAME"),
        ({"TALLY_KAFKA_USERNAME": "u", "TALLY_KAFKA_PASSWORD": "p"}, "SASL_SSL"),
        ({"TALLY_KAFKA_CA_FILE": "ca.pem"}, "SSL"),
        ({"TALLY_VALKEY_URL": "redis://h:1", "TALLY_VALKEY_CA_FILE": "ca.pem"}, "rediss://"),
    ],
)
def test_settings_that_would_protect_less_than_they_name_are_refused(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], named: str
) -> None:
    for name in [name for name in os.environ if name.startswith("TALLY_")]:
        monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    kind = ValkeySettings if "TALLY_VALKEY_URL" in settings else KafkaSettings
    with pytest.raises(ValidationError, match=named):
        kind()


def test_every_client_of_kafka_is_made_with_the_shared_arguments() -> None:
    """`AIOKafka...(` and `KafkaBroker(` with addresses of their own would connect without TLS and SASL."""
    root = Path(__file__).parents[2]
    makers = ("AIOKafkaConsumer(", "AIOKafkaProducer(", "AIOKafkaAdminClient(", "KafkaBroker(")
    for path in [*root.glob("libs/**/*.py"), *root.glob("services/**/*.py")]:
        text = path.read_text()
        for maker in makers:
            for after in text.split(maker)[1:]:
                arguments = after.partition("\n    ")[0] if ")" in after.partition("\n")[0] else after[:400]
                secured = "connection(" in arguments or "security=" in arguments
                assert secured or "asyncapi" in path.name, f"{path}: {maker}"
