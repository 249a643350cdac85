"""Each alert fires when what it names has happened, and not before, as Prometheus itself evaluates it."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from libs.monitoring.health_problems import CHECKS
from services.cli.__main__ import app
from tests.support.generated_files import updated
from tests.support.programs import PROMTOOL, Programs

HERE: Final = Path(__file__).parents[2] / "deploy" / "observability"
RULES: Final = HERE / "alerts.yml"
RUNBOOK: Final = HERE / "runbook.md"
LISTED: Final = re.compile(r"(<!-- alerts:[^>]*-->\n).*?(<!-- /alerts -->)", re.DOTALL)
URL: Final = "{{ $externalLabels.tally_docs }}/observability/runbook.md#%s"
SLOW = 'route="/contests/{contest_key}/votes",method="POST"'
FIRING: Final[dict[str, tuple[dict[str, str], str, list[dict[str, str]]]]] = {
    "TallyVotesOverruled": ({'tally_votes{status="overruled",partition="0"}': "0x10 2x20"}, "4m", [{}]),
    "TallyRecordsQuarantined": (
        {'tally_quarantined_records{topic="votes",partition="1"}': "0x10 1x20"}, "4m", [{"topic": "votes"}]),
    "TallyViewPastTheLog": (
        {
            'tally_view_position{topic="votes",partition="0"}': "5x10 9x20",
            'tally_log_end{topic="votes",partition="0"}': "7x30",
        },
        "4m", [{"topic": "votes", "partition": "0"}]),
    "TallyOutcomesUnknown": ({"tally_votes_unknown_total": "0x20 1+1x20"}, "8m", [{}]),
    "TallyAppendsFail": (
        {
            'tally_append_records_total{topic="votes",outcome="unknown"}': "0x20 1+1x20",
            'tally_append_records_total{topic="votes",outcome="acknowledged"}': "0+10x40",
        },
        "9m", [{"topic": "votes"}]),
    "TallyVotesRefusedByOurFault": (
        {
            'tally_votes_refused_total{code="overloaded"}': "0x20 1+1x20",
            "tally_votes_accepted_total": "0+10x40",
        },
        "9m", [{}]),
    "TallyGateShut": ({'tally_gate_open{partition="3"}': "1x10 0x20"}, "5m", [{"partition": "3"}]),
    "TallyGatesShutOften": ({"tally_gate_shut_seconds_total": "0x20 0+10x20"}, "9m", [{}]),
    "TallyVotesPendingTooLong": ({"tally_votes_pending_oldest_seconds": "1x10 20x20"}, "5m", [{}]),
    "TallyProjectorPartDown": (
        {'tally_projector_part_up{instance="p:1",part="votes"}': "1x10 0x20"},
        "5m", [{"instance": "p:1", "part": "votes"}]),
    "TallyPurchasesSetAside": ({'tally_purchases_set_aside{partition="0"}': "0x10 1x20"}, "5m", [{}]),
    "TallyPurchaseUnreadable": ({"tally_purchases_unreadable_total": "0x10 1+1x20"}, "6m", [{}]),
    "TallyClocksDiffer": (
        {'tally_valkey_clock_off_seconds{partition="0"}': "0x10 -3x20"}, "5m", [{"partition": "0"}]),
    "TallyViewsBehind": ({'tally_view_lag_seconds{topic="votes"}': "0x10 60x20"}, "5m", [{"topic": "votes"}]),
    "TallyViewStalled": (
        {'tally_view_stalled{topic="votes",partition="2"}': "0x10 1x20"},
        "5m", [{"topic": "votes", "partition": "2"}]),
    "TallyProjectionFails": (
        {'tally_projection_failures_total{topic="votes"}': "0x20 0+5x30"}, "10m", [{"topic": "votes"}]),
    "TallyGenerationBroken": (
        {'tally_generations{topic="votes",state="broken"}': "0x10 1x20"}, "4m", [{"topic": "votes"}]),
    "TallyLogLost": (
        {'tally_generations{topic="votes",state="lost"}': "0x10 1x20"}, "4m", [{"topic": "votes"}]),
    "TallyReplayStands": (
        {'tally_replay_remaining_records{topic="votes"}': "900-10x10 800x100"}, "26m", [{"topic": "votes"}]),
    "TallyTargetDown": (
        {'up{job="tally-gateway",instance="g:1"}': "1x10 0x20"},
        "5m", [{"job": "tally-gateway", "instance": "g:1"}]),
    "TallyNoProjector": ({'tally_projection_records_total{topic="votes"}': "1x10 stale"}, "5m", [{}]),
    "TallyCannotLook": (
        {
            'tally_standing_up{topic="votes"}': "1x10 0x20",
            'tally_standing_timestamp_seconds{topic="votes"}': "0+15x40",
        },
        "5m", [{"topic": "votes"}]),
    "TallyErrors": (
        {
            'tally_http_request_duration_seconds_count{status="500"}': "0x20 1+1x20",
            'tally_http_request_duration_seconds_count{status="200"}': "0+10x40",
        },
        "9m", [{}]),
    "TallyVotesSlow": (
        {
            f'tally_http_request_duration_seconds_bucket{{{SLOW},le="1"}}': "0+10x20 200x80",
            f'tally_http_request_duration_seconds_bucket{{{SLOW},le="5"}}': "0+10x100",
            f'tally_http_request_duration_seconds_bucket{{{SLOW},le="+Inf"}}': "0+10x100",
        },
        "18m", [{}]),
    "TallyLoopStands": (
        {'tally_loop_stall_seconds{instance="g:1",route="/contests"}': "0x10 2x20"},
        "4m", [{"instance": "g:1", "route": "/contests"}]),
    "TallyMixedVersions": (
        {'tally_build_info{version="1"}': "1x400", 'tally_build_info{version="2"}': "_x20 1x380"}, "70m", [{}]),
}  # fmt: skip
"""For each alert: series of samples 15 s apart that begin well, a time at which it fires, and its labels."""


GROUPS: Final[list[dict[str, Any]]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS: Final = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}


@pytest.fixture
def promtool(programs: Programs) -> str:
    return programs.path(PROMTOOL)


def check(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_reads_the_rules_and_the_configuration(promtool: str) -> None:
    check(promtool, "check", "rules", RULES)
    check(promtool, "check", "config", "--syntax-only", HERE / "prometheus.yml")


def test_each_alert_fires_when_it_should_and_not_at_the_beginning(promtool: str, tmp_path: Path) -> None:
    assert FIRING.keys() == ALERTS.keys()
    # promtool compares annotations, too: texts are for people
    bare = [group | {"rules": [{**rule, "annotations": {}} for rule in group["rules"]]} for group in GROUPS]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": bare}))
    tests = [
        {
            "interval": "15s",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [
                {"alertname": alert, "eval_time": "1m", "exp_alerts": []},
                {
                    "alertname": alert,
                    "eval_time": at,
                    "exp_alerts": [
                        {"exp_labels": {"severity": ALERTS[alert]["labels"]["severity"], **labels}}
                        for labels in expected
                    ],
                },
            ],
        }
        for alert, (series, at, expected) in FIRING.items()
    ]
    (tmp_path / "tests.yml").write_text(json.dumps({"rule_files": ["rules.yml"], "tests": tests}))
    check(promtool, "test", "rules", tmp_path / "tests.yml")


def test_each_problem_of_status_has_its_part_of_the_runbook_and_each_alert_is_in_one() -> None:
    problems, _, _ = RUNBOOK.read_text().partition("# Alerts")
    _, *parts = re.split(r"^## ", problems, flags=re.MULTILINE)
    kinds = [part.partition("\n")[0] for part in parts]
    assert sorted(kinds) == sorted({"away", "part", "loop", *(check.kind for check in CHECKS)})
    for part in parts:
        assert re.findall(r"^- (Safe|Run|Over): ", part, re.MULTILINE) == ["Safe", "Run", "Over"], part
    assert set(re.findall(r"\bTally[A-Z]\w+", problems)) == ALERTS.keys()
    for words in re.findall(r"`tally ([^`]+)`", problems):
        command = [word for word in words.split() if word.islower() and word != "--execute"]
        done = CliRunner().invoke(app, [*command, "--help"])
        assert done.exit_code == 0, words


def section(name: str, rule: dict[str, Any]) -> str:
    severity, lasting = rule["labels"]["severity"].capitalize(), f", for {rule['for']}" if "for" in rule else ""
    condition = f"{severity}: `{' '.join(rule['expr'].split())}`{lasting}."
    return f"## {name}\n\n{condition}\n\n{rule['annotations']['runbook'].strip()}\n"


def test_the_runbook_has_the_alerts_as_they_are_and_each_links_to_its_part() -> None:
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook_url"] == URL % name.lower()
    parts = [section(name, rule) for name, rule in ALERTS.items()]
    text = RUNBOOK.read_text()
    expected = LISTED.sub(lambda found: found[1] + "\n".join(parts) + found[2], text)
    assert updated(RUNBOOK, expected) == expected
