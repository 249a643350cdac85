"""A Kafka with SASL_SSL, SCRAM and ACLs, and a Valkey with TLS and ACLs, set up from `deploy/security`.

The wheel's Valkey is built without TLS, so a terminator stands before it.
"""

import asyncio
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event, Thread

import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined] # exported, but not in its types
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives import serialization

from libs.local_stack import java, ports
from libs.local_stack.child_process import Reaper
from libs.local_stack.jars import class_path
from libs.local_stack.kafka import NativeKafka, new_id
from libs.local_stack.service_process import ServiceProcess
from libs.local_stack.startup_report import Silence
from libs.local_stack.valkey import NativeValkey
from tests.support.servers.proxy import pump

SECURITY = Path(__file__).parents[3] / "deploy" / "security"
PARTS = ("ingestion", "query", "catalogue", "dashboard", "gateway", "projector", "operator")
ADMIN = "admin"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Certificates:
    """A certificate authority and a server certificate that it signed, as PEM files; issued once per directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.server, self.client = (folder / f"{name}.pem" for name in ("ca", "server", "client"))
        if not self.authority.exists():
            self._issue()

    def _issue(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        server, client = authority.issue_cert("127.0.0.1", "localhost"), authority.issue_cert("client")
        authority.cert_pem.write_to_path(str(self.authority))
        for leaf, path in ((server, self.server), (client, self.client)):
            path.write_bytes(_pkcs8(leaf.private_key_pem.bytes()))
            for certificate in leaf.cert_chain_pems:
                certificate.write_to_path(str(path), append=True)


def _pkcs8(key: bytes) -> bytes:
    """Return the key in PKCS#8, the only encoding that Kafka reads."""
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class SecuredKafka(NativeKafka):
    """Accepts only users with a password, over TLS, and permits what the ACLs allow."""

    certificates: Certificates

    def _format(self, log: Path) -> None:
        """Format the storage with the users: a broker that admits no others needs them at its first start."""
        users = [*(f"tally-{part}" for part in PARTS), ADMIN]
        kinds = ("SCRAM-SHA-512", "SCRAM-SHA-256")
        added = [f"--add-scram={kind}=[name={user},password={user}-secret]" for kind in kinds for user in users]
        jars = os.pathsep.join(map(str, class_path(Silence(), Event())))
        tool = [str(java.find()), "-cp", jars, "kafka.tools.StorageTool", "format"]
        properties = str(log.with_name("server.properties"))
        subprocess.run([*tool, f"--cluster-id={new_id()}", "-c", properties, *added], check=True)

    def _properties(self) -> dict[str, object]:
        values = super()._properties()
        controller = str(values["listeners"]).rpartition(",")[2]
        module = f'{SCRAM} required username="{ADMIN}" password="{ADMIN}-secret";'
        return values | {
            "listeners": f"SASL_SSL://{self.endpoint},{controller}",
            "advertised.listeners": f"SASL_SSL://{self.endpoint}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": module,
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": module,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificates.server,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificates.authority,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:ANONYMOUS",  # the controller's own listener is on loopback
        }


class SecuredValkey(NativeValkey):
    """Accepts only the users of `deploy/security/valkey.acl`; plain TCP, for the terminator only."""

    def restrict_to(self, acl: str) -> None:
        users = self._data_dir / "users.acl"
        users.parent.mkdir(parents=True, exist_ok=True)
        users.write_text(acl)
        lines = [line for line in self._config.splitlines() if not line.startswith("requirepass ")]
        self._config = "\n".join([*lines, f'aclfile "{users}"', ""])
        self.address = f"redis://tally-operator:operator-password@127.0.0.1:{self.port}/0"


@contextmanager
def terminator(certificates: Certificates, port: int, *, mutual: bool = False) -> Iterator[int]:
    """Listen with TLS at a port and forward to `port`; with `mutual`, clients need a certificate.

    It runs in its own thread and event loop, so that tests may block theirs.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.authority)
    context.load_cert_chain(certificates.server)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED

    ends = set[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        ends.update((outer, writer))
        await asyncio.gather(pump(reader, outer), pump(inner, writer))

    async def end() -> None:
        """End all connections: else the garbage collector does, in the middle of another test."""
        server.close()
        while forwarding := asyncio.all_tasks() - {asyncio.current_task()}:
            for each in ends:
                each.transport.abort()
            await asyncio.wait(forwarding, timeout=0.1)

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="TLS terminator", daemon=True)
    thread.start()
    starting = asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Secured:
    """Addresses of secured servers, and the environment of each process that connects to them."""

    def __init__(self, kafka: str, valkey: str, plain_valkey: str, certificates: Certificates) -> None:
        """Create it; `plain_valkey` is the server's address behind the terminator."""
        self.kafka, self.valkey, self.plain_valkey = kafka, valkey, plain_valkey
        self.certificates = certificates

    def environment(self, part: str) -> dict[str, str]:
        """Return the settings of a process, of `operator` for commands, or of `admin` (Kafka's administrator)."""
        user = ADMIN if part == ADMIN else f"tally-{part}"
        of_valkey = "operator" if part == ADMIN else part
        return {
            "TALLY_KAFKA_BOOTSTRAP_SERVERS": self.kafka,
            "TALLY_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "TALLY_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "TALLY_KAFKA_USERNAME": user,
            "TALLY_KAFKA_PASSWORD": f"{user}-secret",
            "TALLY_KAFKA_CA_FILE": str(self.certificates.authority),
            "TALLY_VALKEY_URL": self.valkey,
            "TALLY_VALKEY_USERNAME": f"tally-{of_valkey}",
            "TALLY_VALKEY_PASSWORD": f"{of_valkey}-password",
            "TALLY_VALKEY_CA_FILE": str(self.certificates.authority),
        }

    def parts(self, parts: Sequence[ServiceProcess]) -> tuple[ServiceProcess, ...]:
        """Return the same processes, each with the settings of its own user."""
        return tuple(
            ServiceProcess(
                part.name,
                ("/usr/bin/env", *_assignments(self.environment(part.name)), *part.command),
                part.drain_s,
            )
            for part in parts
        )

    def allow(self, namespace: str) -> None:
        """Run `deploy/security/kafka-acls.sh` for a namespace, with a client library in place of Kafka's tool."""
        output = subprocess.run(
            ["bash", "-c", f'kafka-acls.sh() {{ printf "%s\\t" "$@"; echo; }}; . {SECURITY / "kafka-acls.sh"}'],
            env={**os.environ, "NAMESPACE": namespace, "BOOTSTRAP": self.kafka, "ADMIN": "admin.properties"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        calls = [line.rstrip("\t").split("\t") for line in output.splitlines()]
        settings = self.environment(ADMIN)
        admin = AdminClient(
            {
                "bootstrap.servers": self.kafka,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": settings["TALLY_KAFKA_USERNAME"],
                "sasl.password": settings["TALLY_KAFKA_PASSWORD"],
                "ssl.ca.location": settings["TALLY_KAFKA_CA_FILE"],
            }
        )
        for made in admin.create_acls([one for call in calls for one in _bindings(call)]).values():
            made.result(timeout=30)


@asynccontextmanager
async def secured_servers(data_dir: Path, *namespaces: str) -> AsyncIterator[Secured]:
    """Start both servers, with `deploy/security` set up for these namespaces."""
    certificates = Certificates(data_dir / "certificates")
    reaper = Reaper()
    kafka_port, controller_port, valkey_port = ports.free_ports(3)
    kafka = SecuredKafka(
        kafka_port, controller_port, data_dir / "kafka", data_dir / "kafka.log", reaper, report=Silence()
    )
    kafka.certificates, kafka.address = certificates, kafka.endpoint
    valkey = SecuredValkey(valkey_port, data_dir / "valkey", data_dir / "valkey.log", reaper, fsync="no")
    valkey.restrict_to(_for_namespaces((SECURITY / "valkey.acl").read_text(), namespaces))
    async with AsyncExitStack() as stack:
        stack.callback(reaper.close)
        tls_port = stack.enter_context(terminator(certificates, valkey_port))
        secured = Secured(kafka.address, f"rediss://127.0.0.1:{tls_port}/0", valkey.address, certificates)
        await valkey.start()
        stack.push_async_callback(valkey.stop)
        with environment(secured.environment(ADMIN)):
            await kafka.start()
        stack.push_async_callback(kafka.stop)
        for namespace in namespaces:
            await asyncio.to_thread(secured.allow, namespace)
        yield secured


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Run with `settings` in the process's environment."""
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _assignments(settings: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def _for_namespaces(acl: str, namespaces: Sequence[str]) -> str:
    """Return the users' rights for each of these namespaces in place of "tally"."""

    def rights(word: str) -> str:
        return " ".join(word.replace("~tally", f"~{name}") for name in namespaces) if "~tally" in word else word

    return "".join(" ".join(map(rights, line.split(" "))) for line in acl.splitlines(keepends=True))


def _bindings(call: Sequence[str]) -> Iterator[AclBinding]:
    """Yield the ACL bindings of a call of Kafka's tool: each operation on each topic, group or the cluster."""
    given: dict[str, list[str]] = {}
    words = [word for word in call if word not in ("--add", "--cluster")]
    for option, value in zip(words[::2], words[1::2], strict=True):
        given.setdefault(option, []).append(value)
    pattern = ResourcePatternType[given.get("--resource-pattern-type", ["literal"])[0].upper()]
    resources = [(ResourceType.TOPIC, name) for name in given.get("--topic", [])]
    resources += [(ResourceType.GROUP, name) for name in given.get("--group", [])]
    if "--cluster" in call:
        resources.append((ResourceType.BROKER, "kafka-cluster"))
    for operation in given["--operation"]:
        kind = AclOperation["DESCRIBE_CONFIGS" if operation == "DescribeConfigs" else operation.upper()]
        for resource, name in resources:
            yield AclBinding(
                resource, name, pattern, given["--allow-principal"][0], "*", kind, AclPermissionType.ALLOW
            )
