"""The services' processes of a stack, with their ports and their own environment variables."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from libs.deployment.settings import DeploymentAddresses
from libs.local_stack import ports
from libs.local_stack.settings import StackSettings
from libs.local_stack.stack_json import base_url
from libs.web.settings import CLOSE_S, DRAIN_S, is_loopback


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """Service to run; `command` runs it in the foreground, with settings in the environment.

    SIGTERM makes it drain and exit within `drain_s`.
    """

    name: str
    command: tuple[str, ...]
    drain_s: float = 10.0


def service_command(service: str) -> tuple[str, ...]:
    """Return the command of a service's process, whatever folders are in the current directory."""
    return (sys.executable, "-P", "-m", f"services.{service}")


PARTS = (
    ServiceProcess("projector", service_command("projector")),
    ServiceProcess("gateway", service_command("gateway"), drain_s=DRAIN_S + CLOSE_S + 1),
)
"""Services in the order of their start; they stop in the reverse order."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """Processes in the order of their start, each with its own settings, and addresses.

    Several gateways share one port and have an operations port each, which identifies them.
    """

    processes: Sequence[tuple[ServiceProcess, Mapping[str, str]]]
    base_url: str
    operations_urls: Sequence[str]
    metrics_urls: Mapping[str, str]

    @property
    def gateway_urls(self) -> Sequence[str]:
        """An address of each gateway."""
        return self.operations_urls if len(self.operations_urls) > 1 else [self.base_url]


def service_environment(addresses: DeploymentAddresses, data_dir: Path) -> dict[str, str]:
    """Return the settings with which a service uses these servers and this data directory."""
    return {
        "TALLY_KAFKA_BOOTSTRAP_SERVERS": addresses.kafka,
        "TALLY_VALKEY_URL": addresses.valkey,
        "TALLY_NAMESPACE": addresses.namespace,
        "TALLY_PARTITIONS": str(addresses.partitions),
        "TALLY_STORAGE_URL": addresses.storage_url,
        "TALLY_DATA_DIR": str(data_dir),
        "TALLY_COMMAND_OPTIONS": f"--data-dir {shlex.quote(str(data_dir.absolute()))}",
        **{f"TALLY_{name.upper()}": str(value) for name, value in addresses.description["kafka_settings"].items()},
    }


def plan_services(
    settings: StackSettings, parts: Sequence[ServiceProcess], data_dir: Path, port: int
) -> ServicePlan:
    """Plan `parts`, of which gateways and projectors run as often as `settings` say, behind `port`."""
    host, front = settings.host, base_url(settings.host, port)
    inner = ports.LOOPBACK if settings.lan else host
    gateways, projectors = settings.gateways, settings.projectors
    operations_ports, metrics_ports = _numbered("operations", gateways), _numbered("metrics", projectors)
    remembered = ports.remembered(data_dir / "ports.json", [*operations_ports, *metrics_ports])
    operations = [remembered[name] for name in operations_ports]
    if settings.operations_port:
        operations[0] = settings.operations_port
    elif gateways == 1 and is_loopback(host):
        operations[0] = 0
    metrics = [remembered[name] for name in metrics_ports]
    operations_urls = [base_url(inner, own or port) for own in operations]
    of_gateways = [f"{url}/metrics" for url in operations_urls]
    projector_urls = [f"{base_url(inner, own)}/metrics" for own in metrics]
    common = {
        "TALLY_PORT": str(port),
        "TALLY_REUSE_PORT": str(gateways > 1),
        "TALLY_PROJECTOR_METRICS_URLS": ",".join(projector_urls),
    }
    if settings.lan:
        common |= {"TALLY_OPERATIONS_HOST": inner, "TALLY_LIMITS": settings.limits or "venue"}
    processes = []
    for part in parts:
        copies = {"gateway": gateways, "projector": projectors}.get(part.name, 1)
        for at, name in enumerate(_numbered(part.name, copies)):
            own = {
                "TALLY_HOST": host if part.name == "gateway" else inner,
                "TALLY_OPERATIONS_PORT": str(operations[at if part.name == "gateway" else 0]),
                "TALLY_METRICS_PORT": str(metrics[at if part.name == "projector" else 0]),
            }
            processes.append((replace(part, name=name), common | own))
    metrics_urls = zip(
        [*_numbered("gateway", gateways), *_numbered("projector", projectors)],
        [*of_gateways, *projector_urls],
        strict=True,
    )
    return ServicePlan(processes, front, operations_urls, dict(metrics_urls))


def _numbered(name: str, number: int) -> list[str]:
    return [name] if number == 1 else [f"{name}-{at + 1}" for at in range(number)]
