"""Alerts, dashboard and their document use metrics that the code exports."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import promql_parser as promql
import yaml

from libs.tally.voter_ledger import VoteStatus
from libs.telemetry.metrics import OF_ALL, REGISTRY, ROWS, Metric
from libs.views.generations.generations import State
from libs.web.errors import METHODS, TABLE
from tests.support.clients.commands import command_tree
from tests.support.generated_files import updated
from tests.support.models.openapi import read_tracked

DEPLOY = Path(__file__).parents[2] / "deploy"
HERE = DEPLOY / "observability"
README = HERE / "README.md"
MARKED = re.compile(r"(<!-- metrics:[^>]*-->\n).*?(<!-- /metrics -->)", re.DOTALL)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


RULES = [rule for group in load(HERE / "alerts.yml")["groups"] for rule in group["rules"]]
DASHBOARD: dict[str, Any] = json.loads((HERE / "grafana/dashboards/tallykeeper.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

TARGETS = {"job", "instance"}
"""Labels that Prometheus adds."""
OTHERS = dict.fromkeys(("up", "process_cpu_seconds_total", "process_resident_memory_bytes"), TARGETS)
VALUES: dict[str, set[str]] = {
    "status": {status.name.lower() for status in VoteStatus},
    "outcome": {"acknowledged", "refused", "unknown"},
    "code": set(TABLE),
    "state": set(State),
    "method": {*METHODS, "other"},
    "kind": {"counts", "results"},
    "source": {"c-free", "c-paid"},
    "reason": {"connections", "evicted", "headers", "deadline", "rate", "streams", "in_flight"},
}


def samples_of(row: Metric) -> dict[str, set[str]]:
    labels = {*row.labels, *TARGETS}
    if row.kind != "histogram":
        return {row.name: labels}
    return {f"{row.name}_bucket": {*labels, "le"}, f"{row.name}_count": labels, f"{row.name}_sum": labels}


SAMPLES = {name: labels for row in ROWS for name, labels in samples_of(row).items()} | OTHERS


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


EXPRESSIONS = list(expressions())


def nodes_of(expression: str) -> list[Any]:
    found: list[Any] = []
    assert promql.walk(promql.parse(expression), found.append)
    return found


def selectors_of(expression: str) -> list[Any]:
    return [node for node in nodes_of(expression) if isinstance(node, promql.VectorSelector)]


def labels_within(expression: Any) -> set[str]:
    return set().union(*(SAMPLES[selector.name] for selector in selectors_of(str(expression))))


def test_expressions_ask_for_metrics_and_labels_that_there_are() -> None:
    for name, expression in EXPRESSIONS:
        for selector in selectors_of(expression):
            assert selector.name in SAMPLES, name
            for matcher in selector.matchers.matchers:
                assert matcher.name in SAMPLES[selector.name], (name, matcher)
                if matcher.name in VALUES and not matcher.value.startswith("$") and "http" not in selector.name:
                    assert set(matcher.value.split("|")) <= VALUES[matcher.name], (name, matcher)
        for node in nodes_of(expression):
            if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
                assert set(node.modifier.labels) <= labels_within(node.expr), (name, node.modifier.labels)


def test_what_every_process_says_alike_is_never_added_up_over_them() -> None:
    alike = {row.name for row in ROWS if row.whose == OF_ALL}
    for name, expression in EXPRESSIONS:
        for node in nodes_of(expression):
            if isinstance(node, promql.AggregateExpr) and str(node.op) in ("sum", "avg", "count"):
                inner = node.expr
                assert not (isinstance(inner, promql.VectorSelector) and inner.name in alike), name


def test_every_metric_is_shown_or_alerted_on() -> None:
    used = {selector.name for _, expression in EXPRESSIONS for selector in selectors_of(expression)}
    assert [row.name for row in ROWS if not used & samples_of(row).keys()] == []


def test_durations_are_named_so_and_the_running_version_is_exported() -> None:
    assert all(row.name.endswith("_duration_seconds") for row in ROWS if row.kind == "histogram")
    build = REGISTRY.get_sample_value(
        "tally_build_info", {"version": version("tallykeeper"), "python": python_version()}
    )
    assert build == 1


def test_routes_in_expressions_are_those_of_the_description() -> None:
    paths = read_tracked()["paths"]
    routes = {
        matcher.value
        for _, expression in EXPRESSIONS
        for selector in selectors_of(expression)
        for matcher in selector.matchers.matchers
        if matcher.name == "route"
    }
    assert routes
    assert routes <= paths.keys()


def test_alerts_say_what_to_do_by_commands_that_there_are_and_have_different_names() -> None:
    tree = command_tree()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        said = rule["annotations"]["runbook"]
        commands = re.findall(r"`tally ([^`]+)`", said)
        assert commands, said
        for command in commands:
            at: Any = tree
            for word in command.split():
                if word.startswith("-") or not hasattr(at, "commands"):
                    break
                assert word in at.commands, command
                at = at.commands[word]
            assert at is not tree
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert shown <= labels_within(rule["expr"]) | TARGETS, rule["alert"]
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))


def test_panels_do_not_overlap_and_the_variables_are_there() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    text = json.dumps(DASHBOARD)
    assert set(re.findall(r"\$\{?([a-z]\w*)", text)) == names
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_prometheus_and_grafana_find_what_belongs_to_them() -> None:
    prometheus = load(HERE / "prometheus.yml")
    assert all((HERE / name).is_file() for name in prometheus["rule_files"])
    compose = load(DEPLOY / "compose.yaml")
    for job in prometheus["scrape_configs"]:
        for target in job["static_configs"][0]["targets"]:
            host, port = target.split(":")
            assert host in compose["services"]
            assert job["job_name"] == f"tally-{host}"
            setting = "TALLY_METRICS_PORT" if host == "projector" else "TALLY_OPERATIONS_PORT"
            assert str(compose["services"][host]["environment"][setting]) == port
    for service in ("prometheus", "grafana"):
        for volume in compose["services"][service]["volumes"]:
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() or source in compose["volumes"]
    (provider,) = load(HERE / "grafana/provisioning/dashboards/tallykeeper.yml")["providers"]
    mounted = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted
    (source,) = load(HERE / "grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_grafana_has_a_password_of_the_operators_own() -> None:
    """Its default is known to everybody."""
    compose = load(DEPLOY / "compose.yaml")
    grafana = compose["services"]["grafana"]
    path = grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"]
    name = path.removeprefix("/run/secrets/")
    assert name in grafana["secrets"]
    assert compose["secrets"][name]["file"] == "./secrets/grafana-password"


def test_the_document_lists_every_metric_as_the_code_has_it() -> None:
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.kind} | {', '.join(f'`{label}`' for label in row.labels)} | {row.help} |"
        for row in ROWS
    ]
    text = README.read_text()
    expected = MARKED.sub(lambda found: found[1] + "\n".join([*lines, ""]) + found[2], text)
    assert updated(README, expected) == expected
