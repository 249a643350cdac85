"""deploy/chart on a Kubernetes of two nodes, with stand-ins for Kafka and Valkey beside it."""

import asyncio
import json
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import helm_python as helm
import httpx
import pytest
import yaml

from tests.deploy.machines import images
from tests.deploy.machines.conftest import Row
from tests.deploy.machines.kubernetes_node import FIXED, NODES, Kubernetes
from tests.deploy.machines.machine import INSIDE, Machine
from tests.deploy.machines.voting import voting
from tests.faults.voters import Voters
from tests.support.clients.http_clients import http_client
from tests.support.eventually import eventually

pytestmark = pytest.mark.stack

CHART = images.ROOT / "deploy" / "chart"
RELEASE = "tally"
GATEWAY, PROJECTOR = f"{RELEASE}-tallykeeper-gateway", f"{RELEASE}-tallykeeper-projector"
LITTLE = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
PARTS = "gateway", "projector", "operator"
VALUES: dict[str, Any] = {
    "image": {"repository": images.SERVICE.split(":")[0], "tag": images.SERVICE.split(":")[1]},
    "partitions": 4,
    "kafka": {
        "bootstrapServers": "kafka.votes.svc.cluster.local:9092",
        "replicationFactor": 1,
        "securityProtocol": "SASL_PLAINTEXT",
        "saslMechanism": "PLAIN",
        "users": {part: {"name": "tally", "secret": "kafka"} for part in PARTS},
    },
    "valkey": {
        "url": "redis://valkey.votes.svc.cluster.local:6379/0",
        "users": {part: {"secret": "valkey-users", "key": f"tally-{part}"} for part in PARTS},
    },
    "storage": {"claim": "objects"},
    "gateway": {"replicas": 2, "resources": LITTLE, "autoscaling": {"enabled": False}},
    "projector": {"replicas": 2, "resources": LITTLE},
}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def kafka(password: str) -> list[dict[str, Any]]:
    """Return a Deployment and a Service of the stand-in; its data is lost with its pod, which no test ends."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "CLIENT://:9092,CONTROLLER://localhost:9093",
        "KAFKA_ADVERTISED_LISTENERS": "CLIENT://kafka.votes.svc.cluster.local:9092",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "CLIENT",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
        "KAFKA_LISTENER_NAME_CLIENT_PLAIN_SASL_JAAS_CONFIG": (
            f'{plain} required username="tally" password="{password}" user_tally="{password}";'
        ),
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    }
    labels, metadata = {"app": "kafka"}, {"name": "kafka", "namespace": "votes"}
    container = {
        "name": "kafka",
        "image": images.KAFKA,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "securityContext": RESTRICTED,
        "readinessProbe": {"tcpSocket": {"port": 9092}, "periodSeconds": 1},
    }
    pod = {"nodeName": NODES[0], "securityContext": {"runAsUser": 1000}, "containers": [container]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    ports = {"clusterIP": FIXED["kafka"], "selector": labels, "ports": [{"port": 9092}]}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": ports},
    ]


def valkey() -> list[dict[str, Any]]:
    """Return the chart's example with the stand-in's image, on the node that is not drained."""
    stateful_set, service = yaml.safe_load_all((CHART / "examples/valkey.yaml").read_text())
    for each in (stateful_set, service):
        each["metadata"]["namespace"] = "votes"
    service["spec"]["clusterIP"] = FIXED["valkey"]
    spec = stateful_set["spec"]
    pod = spec["template"]["spec"]
    pod["containers"][0] |= {"image": images.VALKEY, "resources": {}}
    pod["nodeName"] = NODES[0]
    pod["volumes"].append({"name": "data", "emptyDir": {}})
    del spec["volumeClaimTemplates"]
    return [stateful_set, service]


def secret(name: str, **content: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "votes"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content}


def servers() -> list[dict[str, Any]]:
    """Return everything that the chart needs: passwords, a volume, Kafka and Valkey."""
    users = (images.ROOT / "deploy/security/valkey.acl").read_text()
    passwords = {f"tally-{part}": secrets.token_hex(24) for part in PARTS}
    for part in PARTS:
        users = users.replace(f">{part}-password", f">{passwords[f'tally-{part}']}")
    word = secrets.token_hex(24)
    volume = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    directory = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": f"{INSIDE}/objects"}}
    claim = {"volumeName": "objects", "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "objects", "namespace": "votes"}
    return [
        secret("kafka", password=word),
        secret("valkey-users", **passwords),
        secret("valkey-acl", **{"users.acl": users}),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "objects"},
            "spec": volume | directory,
        },
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": volume | claim},
        *kafka(word),
        *valkey(),
    ]


@pytest.fixture(scope="module")
def kubernetes(machine: Machine) -> Kubernetes:
    """The cluster with the servers, in a namespace that admits restricted pods only."""
    cluster = Kubernetes(machine)
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "votes", "labels": level}})
    objects = machine.shared / "objects"
    shutil.rmtree(objects, ignore_errors=True)
    objects.mkdir()
    objects.chmod(0o777)
    cluster.apply(*servers())
    cluster.kubectl("rollout", "status", "deployment/kafka", "statefulset/valkey", "--timeout=180s")
    return cluster


@pytest.fixture(scope="module")
async def client(kubernetes: Kubernetes) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the gateways' Service, with a key that the command in the chart's notes made."""
    words = "keys create --account demo --permission content:read --permission content:write"
    words += " --permission votes:write --permission results:read"
    printed = kubernetes.kubectl("exec", f"deployment/{GATEWAY}", "--", "tally", *words.split())
    address = kubernetes.get("service", GATEWAY)["spec"]["clusterIP"]
    headers = {"Authorization": f"Bearer {printed.strip().splitlines()[-1]}"}
    async with http_client(base_url=f"http://{address}", headers=headers, timeout=10) as client:
        yield client


async def in_thread(kubernetes: Kubernetes, *arguments: str) -> None:
    await asyncio.to_thread(kubernetes.kubectl, *arguments)


@asynccontextmanager
async def survived(client: httpx.AsyncClient, row: Row, step: str) -> AsyncIterator[Voters]:
    """Voters during a step that costs no vote, and its row."""
    async with voting(client) as voters:
        began = time.monotonic()
        yield voters
        took_s = time.monotonic() - began
        waits = [later - earlier for (earlier, _), (later, _) in pairwise(voters.acceptances)]
        figures = (
            f"{took_s:.0f} s; {len(voters.acceptances)} votes accepted, none lost or doubled, "
            f"{len(voters.unavailable)} answers 503, longest time without an accepted vote {max(waits):.1f} s"
        )
    row(step, figures)


def ready(kubernetes: Kubernetes, deployment: str) -> int:
    return int(kubernetes.get("deployment", deployment)["status"].get("readyReplicas", 0))


def pods(kubernetes: Kubernetes, component: str) -> dict[str, dict[str, Any]]:
    found = kubernetes.get("pods", f"--selector=app.kubernetes.io/component={component}")["items"]
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


def nodes_of(kubernetes: Kubernetes, component: str) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods(kubernetes, component).values()}


def upgrade(kubernetes: Kubernetes, **changes: Any) -> None:
    with helm.Config(kubeconfig_path=kubernetes.kubeconfig, namespace="votes") as release:
        release.upgrade(str(CHART), RELEASE, VALUES | changes, namespace="votes", timeout=400, wait="legacy")


def test_the_chart_is_installed_into_a_namespace_of_restricted_pods(kubernetes: Kubernetes, row: Row) -> None:
    began = time.monotonic()
    with helm.Config(kubeconfig_path=kubernetes.kubeconfig, namespace="votes") as release:
        release.install(str(CHART), RELEASE, VALUES, namespace="votes", timeout=400, wait="legacy")
    assert (ready(kubernetes, GATEWAY), ready(kubernetes, PROJECTOR)) == (2, 2)
    row("install, two gateways and two projectors ready", f"{time.monotonic() - began:.0f} s")


async def test_pods_of_a_part_are_on_both_nodes(kubernetes: Kubernetes) -> None:
    for component in ("gateway", "projector"):
        assert nodes_of(kubernetes, component) == set(NODES)


async def test_the_rebuilding_job_ends_by_itself_where_no_layout_changed(kubernetes: Kubernetes) -> None:
    def done() -> bool:
        jobs = kubernetes.get("jobs", "--selector=app.kubernetes.io/component=rebuild")["items"]
        return [job["status"].get("succeeded") for job in jobs] == [1]

    await eventually(done, deadline_s=240)


async def test_a_rolling_upgrade_loses_no_vote(
    kubernetes: Kubernetes, client: httpx.AsyncClient, row: Row
) -> None:
    async with survived(client, row, "rolling upgrade to a second image"):
        repository, tag = images.NEXT.split(":")
        VALUES["image"] = {"repository": repository, "tag": tag}
        await asyncio.to_thread(upgrade, kubernetes)
    for component in ("gateway", "projector"):
        running = {pod["spec"]["containers"][0]["image"] for pod in pods(kubernetes, component).values()}
        assert running == {images.NEXT}


@pytest.mark.parametrize("component", ["gateway", "projector"])
async def test_a_killed_pod_costs_no_vote(
    kubernetes: Kubernetes, client: httpx.AsyncClient, row: Row, component: str
) -> None:
    async with survived(client, row, f"a {component}'s pod killed"):
        name = next(iter(pods(kubernetes, component)))
        await in_thread(kubernetes, "delete", "pod", name, "--grace-period=0", "--force")
        deployment = f"{RELEASE}-tallykeeper-{component}"
        await eventually(
            lambda: name not in pods(kubernetes, component) and ready(kubernetes, deployment) == 2, every_s=1
        )


async def test_a_gateway_that_hangs_is_restarted(
    kubernetes: Kubernetes, client: httpx.AsyncClient, row: Row
) -> None:
    async with survived(client, row, "a gateway hangs (SIGSTOP)"):
        name, pod = next(iter(pods(kubernetes, "gateway").items()))
        uid = pod["metadata"]["uid"]
        found = kubernetes.machine.run("sh", "-c", f"grep -l 'pod{uid}' /proc/[0-9]*/cgroup | cut -d/ -f3")
        commands = {
            pid: kubernetes.machine.run("cat", f"/proc/{pid}/cmdline", check=False) for pid in found.split()
        }
        (service,) = [pid for pid, command in commands.items() if "services.gateway" in command]
        kubernetes.machine.run("kill", "-STOP", service)

        def restarted() -> bool:
            (status,) = pods(kubernetes, "gateway")[name]["status"]["containerStatuses"]
            return bool(status["restartCount"] == 1 and status["ready"])

        await eventually(restarted, every_s=1, deadline_s=180)


async def test_a_drained_node_costs_no_vote(kubernetes: Kubernetes, client: httpx.AsyncClient, row: Row) -> None:
    await in_thread(kubernetes, "rollout", "restart", f"deployment/{GATEWAY}", f"deployment/{PROJECTOR}")
    for name in (GATEWAY, PROJECTOR):
        await in_thread(kubernetes, "rollout", "status", f"deployment/{name}", "--timeout=300s")
    for component in ("gateway", "projector"):
        assert NODES[1] in nodes_of(kubernetes, component)
    async with survived(client, row, "a node drained"):
        await in_thread(
            kubernetes, "drain", NODES[1], "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=300s"
        )
        await eventually(lambda: ready(kubernetes, GATEWAY) == ready(kubernetes, PROJECTOR) == 2, every_s=1)
        for component in ("gateway", "projector"):
            assert nodes_of(kubernetes, component) == {NODES[0]}
    await in_thread(kubernetes, "uncordon", NODES[1])


async def test_scaling_costs_no_vote(kubernetes: Kubernetes, client: httpx.AsyncClient, row: Row) -> None:
    async with survived(client, row, "scaled 1, 3, 1") as voters:
        for replicas in (1, 3, 1):
            await in_thread(
                kubernetes, "scale", f"deployment/{GATEWAY}", f"deployment/{PROJECTOR}", f"--replicas={replicas}"
            )
            await eventually(
                lambda: (
                    ready(kubernetes, GATEWAY) == ready(kubernetes, PROJECTOR) == replicas  # noqa: B023
                    and len(pods(kubernetes, "gateway")) == len(pods(kubernetes, "projector")) == replicas  # noqa: B023
                ),
                every_s=1,
            )
            voted = voters.total
            await eventually(lambda: voters.total > voted + 10)  # noqa: B023


def test_the_views_equal_the_log(kubernetes: Kubernetes, row: Row) -> None:
    printed = kubernetes.kubectl("exec", f"deployment/{GATEWAY}", "--", "tally", "verify", "--json")
    assert json.loads(printed)
    row("`tally verify`", "exit code 0")


async def test_only_what_a_hook_made_is_left_of_the_release(kubernetes: Kubernetes, row: Row) -> None:
    with helm.Config(kubeconfig_path=kubernetes.kubeconfig, namespace="votes") as release:
        release.uninstall(RELEASE, timeout=300, wait="legacy")

    def left() -> list[str]:
        names = kubernetes.kubectl("get", "all,serviceaccounts,networkpolicies,pdb,hpa", "--output=name").split()
        return [name for name in names if f"{RELEASE}-tallykeeper" in name]

    await eventually(lambda: left() == [f"serviceaccount/{RELEASE}-tallykeeper-topics"])
    row("uninstall", "leaves the hook's ServiceAccount only")
