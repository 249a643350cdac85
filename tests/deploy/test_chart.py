"""The Helm chart: rendered by Helm's own library, checked against Kubernetes' schemas and against snapshots.

TALLY_UPDATE_DOCUMENTS=1 writes the snapshots and values.schema.json. The schemas know no custom resources
(ScaledObject, PodMonitor, PrometheusRule, HTTPRoute): these are only compared with their snapshots.
"""

import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from libs.telemetry.metrics import ROWS
from services.gateway.settings import Settings as Gateway
from services.projector.settings import Settings as Projector
from tests.deploy.conftest import Chart
from tests.support.generated_files import updated

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "chart"
SNAPSHOTS = Path(__file__).parent / "chart_snapshots"
PART = "app.kubernetes.io/component"
RESOURCE = "type", "name", "patternType"
SCHEMAS_OF = "1.34"
CUSTOM = {"ScaledObject", "PodMonitor", "PrometheusRule", "HTTPRoute"}
LEAST = {
    "kafka": {"bootstrapServers": "kafka:9092"},
    "valkey": {"url": "redis://valkey:6379/0"},
    "storage": {"claim": "objects"},
}
SECRETS = {part: {"secret": f"tally-{part}"} for part in ("gateway", "projector", "operator")}
EVERYTHING: dict[str, Any] = {
    "image": {"digest": f"sha256:{'0' * 64}", "pullSecrets": [{"name": "registry"}]},
    "kafka": {"bootstrapServers": "kafka:9093", "ca": {"secret": "kafka-ca"}, "users": SECRETS},
    "valkey": {"url": "rediss://one:6379,two:6379", "ca": {"secret": "valkey-ca"}, "users": SECRETS},
    "storage": {"url": "s3://bucket", "credentialsSecret": "bucket"},
    "env": {"TALLY_LOG_LEVEL": "warning"},
    "gateway": {
        "env": {"TALLY_RATE_PER_KEY": 100, "TALLY_LOG_LEVEL": "debug"},
        "serviceAccount": {"annotations": {"role": "gateway"}},
        "autoscaling": {"votesInFlight": 2000},
        "trustedProxies": ["10.0.0.0/8", "192.168.0.0/16"],
        "publicUrl": "https://votes.example.org",
    },
    "projector": {"autoscaling": {"enabled": True, "maxReplicas": 100}},
    "ingress": {
        "enabled": True,
        "host": "votes.example.org",
        "tlsSecret": "tls",
        "annotations": {"team": "votes"},
    },
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["votes.example.org"]},
    "networkPolicy": {
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
        "operationsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
    },
    "monitoring": {"podMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}},
}
CASES = {
    "least": LEAST,
    "everything": EVERYTHING,
    "strimzi": yaml.safe_load((CHART / "examples/values-strimzi.yaml").read_text()),
}


def pods_of(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in objects:
        if "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def kind(objects: list[dict[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == name}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def objects(chart: Chart, case: str) -> list[dict[str, Any]]:
    return chart.render(CASES[case])


def test_the_chart_renders_as_before_and_helm_and_kubernetes_accept_it(
    chart: Chart, case: str, objects: list[dict[str, Any]]
) -> None:
    assert chart.complaints(CASES[case]) == []
    for each in objects:
        if each["kind"] not in CUSTOM:
            chart.validate(each, SCHEMAS_OF)
    text = yaml.safe_dump_all(objects, sort_keys=False, width=115)
    assert updated(SNAPSHOTS / f"{case}.yaml", text) == text


def test_every_pod_is_restricted_and_no_token_is_in_it(objects: list[dict[str, Any]]) -> None:
    """As PodSecurity `restricted` demands it, with a root that cannot be written."""
    pods = dict(pods_of(objects))
    assert len(pods) == 4
    for pod in pods.values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]
    assert all(not each["automountServiceAccountToken"] for each in kind(objects, "ServiceAccount").values())


def test_no_variable_of_a_pod_holds_a_password_and_every_one_is_a_setting(objects: list[dict[str, Any]]) -> None:
    settings = {f"TALLY_{name.upper()}" for each in (Gateway, Projector) for name in each.model_fields}
    files = {f"{name}_FILE" for name in settings}
    for _, pod in pods_of(objects):
        names = {each["name"] for each in pod["containers"][0]["env"]}
        assert names <= settings | files
        assert not names & {"TALLY_KAFKA_PASSWORD", "TALLY_VALKEY_PASSWORD"}


def test_a_process_may_drain_and_is_restarted_only_when_it_hangs(objects: list[dict[str, Any]]) -> None:
    drain_s = Gateway.model_fields["drain_delay_s"].default
    for deployment in kind(objects, "Deployment").values():
        pod = deployment["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= drain_s + 10 + 10
        (container,) = pod["containers"]
        for name in ("startupProbe", "livenessProbe"):
            assert container[name]["httpGet"]["path"] == "/livez"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize("values", [LEAST, EVERYTHING])
def test_operators_ports_are_closed_to_the_world(chart: Chart, values: dict[str, Any]) -> None:
    sources = values.get("networkPolicy", {}).get("operationsFrom")
    objects = chart.render(values)
    rules = [rule for policy in kind(objects, "NetworkPolicy").values() for rule in policy["spec"]["ingress"]]
    admitted = [
        (port["port"], rule.get("from")) for rule in rules for port in rule["ports"] if port["port"] != 8080
    ]
    assert sorted(admitted) == ([] if sources is None else [(9464, sources), (9465, sources)])
    covered = {
        each["spec"]["podSelector"]["matchLabels"][PART] for each in kind(objects, "NetworkPolicy").values()
    }
    assert covered == {"gateway", "projector", "topics", "rebuild"}
    (service,) = kind(objects, "Service").values()
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]


def test_there_are_never_more_projectors_than_partitions(chart: Chart) -> None:
    scaling = {"projector": {"autoscaling": {"enabled": True, "maxReplicas": 100}}}
    (scaled,) = kind(chart.render(LEAST | scaling | {"partitions": 4}), "ScaledObject").values()
    assert scaled["spec"]["maxReplicaCount"] == 4
    fixed = chart.render(LEAST | {"projector": {"replicas": 9}, "partitions": 4})
    assert kind(fixed, "Deployment")["tally-tallykeeper-projector"]["spec"]["replicas"] == 4


def test_autoscaling_asks_for_metrics_that_there_are_and_the_alerts_are_those_of_the_project(chart: Chart) -> None:
    objects = chart.render(EVERYTHING)
    scalers = [each for each in objects if each["kind"] in ("HorizontalPodAutoscaler", "ScaledObject")]
    asked = set(re.findall(r"\btally_\w+", json.dumps(scalers)))
    assert asked == {"tally_votes_in_flight", "tally_view_lag_records"} <= {row.name for row in ROWS}
    (rule,) = kind(objects, "PrometheusRule").values()
    assert rule["spec"] == yaml.safe_load((DEPLOY / "observability/alerts.yml").read_text())


def test_topics_come_first_and_an_unfinished_layout_never_waits_for_itself(objects: list[dict[str, Any]]) -> None:
    jobs = {name.split("-")[2]: each for name, each in kind(objects, "Job").items()}
    assert jobs["topics"]["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "annotations" not in jobs["rebuild"]["metadata"]


def test_a_misspelt_value_is_refused_by_the_schema_made_of_the_values(chart: Chart) -> None:
    text = json.dumps(schema_of(yaml.safe_load((CHART / "values.yaml").read_text())), indent=2) + "\n"
    assert updated(CHART / "values.schema.json", text) == text
    with pytest.raises(Exception, match="replicaz"):
        chart.render(LEAST | {"gateway": {"replicaz": 3}})


def rights_of_the_script(tmp_path: Path) -> dict[str, set[tuple[str, ...]]]:
    """Return what deploy/security/kafka-acls.sh allows each user: type, name, pattern and operation."""
    stub = tmp_path / "kafka-acls.sh"
    stub.write_text('#!/bin/sh\necho "$@"\n')
    stub.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BOOTSTRAP": "kafka", "ADMIN": "admin"}
    script = ["bash", str(DEPLOY / "security/kafka-acls.sh")]
    calls = subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    rights = defaultdict[str, set[tuple[str, ...]]](set)
    for call in calls:
        pattern = "prefix" if "--resource-pattern-type prefixed" in call else "literal"
        named = [(*found, pattern) for found in re.findall(r"--(topic|group) (\S+)", call)]
        resources = [*named, *([("cluster",)] if "--cluster" in call else [])]
        (user,) = re.findall(r"--allow-principal User:(\S+)", call)
        rights[user] |= {(*each, op) for each in resources for op in re.findall(r"--operation (\S+)", call)}
    return rights


def test_the_users_of_strimzi_may_do_what_the_script_allows(tmp_path: Path) -> None:
    expected = rights_of_the_script(tmp_path)
    for each in yaml.safe_load_all((CHART / "examples/strimzi.yaml").read_text()):
        if each["kind"] == "KafkaUser":
            allowed = {
                (*map(acl["resource"].get, [name for name in RESOURCE if name in acl["resource"]]), operation)
                for acl in each["spec"]["authorization"]["acls"]
                for operation in acl["operations"]
            }
            assert allowed == expected[each["metadata"]["name"]]


def test_the_example_of_valkey_is_as_kubernetes_describes_it(chart: Chart) -> None:
    for each in yaml.safe_load_all((CHART / "examples/valkey.yaml").read_text()):
        chart.validate(each, SCHEMAS_OF)


def schema_of(value: object) -> dict[str, Any]:
    """Return a JSON schema: the names and types of the defaults; an empty object or list may hold anything."""
    match value:
        case dict() if value:
            members = {name: schema_of(member) for name, member in value.items()}
            return {"type": "object", "additionalProperties": False, "properties": members | {"global": {}}}
        case dict():
            return {"type": "object"}
        case list():
            return {"type": "array"}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": ["integer", "string"]}
        case _:
            return {"type": "string"}
