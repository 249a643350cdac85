"""The services' processes: several gateways behind one port, and an address of its own for each one's metrics."""

from pathlib import Path
from typing import Any

import pytest

from libs.local_stack.service_process import PARTS, ServicePlan, plan_services
from libs.local_stack.settings import StackSettings

PORT = 8080


def plan(data_dir: Path, **settings: Any) -> ServicePlan:
    return plan_services(StackSettings(data_dir=data_dir, **settings), PARTS, data_dir, PORT)


@pytest.fixture
def several(tmp_path: Path) -> ServicePlan:
    return plan(tmp_path, gateways=2, projectors=2)


def test_several_share_the_address_of_the_api(several: ServicePlan) -> None:
    names = [process.name for process, _ in several.processes]
    assert names == ["projector-1", "projector-2", "gateway-1", "gateway-2"]
    gateways = [own for process, own in several.processes if process.name.startswith("gateway")]
    assert [(own["TALLY_PORT"], own["TALLY_REUSE_PORT"]) for own in gateways] == 2 * [(str(PORT), "True")]


def test_each_of_several_has_metrics_of_its_own(several: ServicePlan) -> None:
    assert [*several.metrics_urls] == ["gateway-1", "gateway-2", "projector-1", "projector-2"]
    assert len({*several.metrics_urls.values()}) == 4
    for process, own in several.processes:
        port = own["TALLY_OPERATIONS_PORT" if process.name.startswith("gateway") else "TALLY_METRICS_PORT"]
        assert several.metrics_urls[process.name] == f"http://127.0.0.1:{port}/metrics"
        assert all(
            several.metrics_urls[name] in own["TALLY_PROJECTOR_METRICS_URLS"]
            for name in ("projector-1", "projector-2")
        )


def test_ports_of_operators_are_kept_between_runs(tmp_path: Path, several: ServicePlan) -> None:
    assert plan(tmp_path, gateways=2, projectors=2).metrics_urls == several.metrics_urls


def test_on_a_lan_only_the_gateway_listens_to_the_network(tmp_path: Path) -> None:
    planned = plan(tmp_path, lan=True)
    own = {process.name: environment for process, environment in planned.processes}
    assert (own["gateway"]["TALLY_HOST"], own["projector"]["TALLY_HOST"]) == ("0.0.0.0", "127.0.0.1")
    assert own["gateway"]["TALLY_OPERATIONS_HOST"] == "127.0.0.1"
    assert own["gateway"]["TALLY_OPERATIONS_PORT"] != "0"
    assert all(url.startswith("http://127.0.0.1:") for url in planned.metrics_urls.values())


def test_on_a_lan_the_limits_are_those_of_a_venue_unless_set(tmp_path: Path) -> None:
    for settings, limits in (({"lan": True}, "venue"), ({"lan": True, "limits": "standard"}, "standard")):
        for _, environment in plan(tmp_path, **settings).processes:
            assert environment["TALLY_LIMITS"] == limits
    assert all("TALLY_LIMITS" not in environment for _, environment in plan(tmp_path).processes)
