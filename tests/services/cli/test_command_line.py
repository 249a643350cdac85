"""The `tally` command as installed: help without delay, completion by shells, wherever one stands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from libs.local_stack import stack_json
from libs.local_stack.service_process import PARTS, ServiceProcess
from services.cli.__main__ import PLACES, description, import_command
from tests.support.eventually import eventually

pytestmark = pytest.mark.pure

TALLY = str(Path(sys.executable).with_name("tally"))
OTHERS = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}


def run(*command: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=cwd, env=OTHERS | environment, capture_output=True, text=True, check=False)


def test_the_help_lists_each_command_as_it_describes_itself() -> None:
    listed = {name: description(name) for name in PLACES}
    imported = {name: (import_command(name).help or "").partition("\n\n")[0] for name in PLACES}
    assert listed == imported


def test_the_help_imports_nothing_that_takes_time(tmp_path: Path) -> None:
    script = (
        "import sys; sys.argv = ['tally', '--help']; from services.cli.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'aiokafka', 'fastapi', 'httpx', 'obstore', 'pydantic', 'redis', 'faststream'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    result = run(sys.executable, "-P", "-c", script, cwd=tmp_path)
    assert "Run on this machine" in result.stdout
    assert result.stderr.strip() == "[]"


def test_completion_can_be_installed_and_completes_commands(tmp_path: Path) -> None:
    path = os.pathsep.join((str(Path(TALLY).parent), os.environ["PATH"]))
    home = {"HOME": str(tmp_path), "PATH": path, "SHELL": "/bin/bash"}
    # the shell is that of the parent process
    installed = run("bash", "-c", "tally --install-completion; exit $?", cwd=tmp_path, **home)
    assert installed.returncode == 0, installed.stderr
    assert "tally" in (tmp_path / ".bashrc").read_text()
    ask = (
        f"source {tmp_path}/.bashrc; COMP_WORDS=(tally ver); COMP_CWORD=1; "
        '$(complete -p tally | sed "s/.*-F \\([^ ]*\\) .*/\\1/") tally; echo "${COMPREPLY[@]}"'
    )
    assert run("bash", "-c", ask, cwd=tmp_path, **home).stdout.split() == ["verify"]


def other_project(tmp_path: Path) -> Path:
    """Return a directory whose packages have the names of ours, as a user's own project may."""
    for package in ("services", "libs", "redis"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('not this one')")
    return tmp_path


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_service_imports_none_of_the_current_directory_s_packages_and_names_a_wrong_setting_in_a_line(
    tmp_path: Path, part: ServiceProcess
) -> None:
    result = run(*part.command, cwd=other_project(tmp_path), TALLY_LOG_LEVEL="loud")
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: TALLY_LOG_LEVEL: Input should be 'debug'")
    assert line.endswith("Correct or unset it; `tally config show` lists all settings.")
    assert (result.returncode, result.stdout) == (2, "")


async def test_served_services_do_not_either(tmp_path: Path) -> None:
    away = {"TALLY_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "TALLY_VALKEY_URL": "redis://127.0.0.1:1/0"}
    log = tmp_path / "log"
    with log.open("wb") as output:
        projector = subprocess.Popen(  # noqa: ASYNC220
            [TALLY, "serve", "projector"],
            cwd=other_project(tmp_path),
            env=OTHERS | away | {"TALLY_STORAGE_URL": str(tmp_path / "objects")},
            stdout=output,
            stderr=output,
        )
    try:
        await eventually(lambda: b"waiting" in log.read_bytes() or projector.poll() is not None)
        assert projector.poll() is None, log.read_text()
    finally:
        projector.kill()
        projector.wait()


def test_commands_find_the_same_stack_wherever_one_stands(tmp_path: Path) -> None:
    data_dir = tmp_path / "data" / "tallykeeper"
    data_dir.mkdir(parents=True)
    stack_json.write(data_dir, {"kafka": "h:1", "valkey": "redis://h:2", "namespace": "theirs", "partitions": 4})
    found = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
        result = run(TALLY, "config", "show", "--json", cwd=tmp_path / name, **home)
        found.append({row["setting"]: row["value"] for row in json.loads(result.stdout)["settings"]})
        assert not list((tmp_path / name).iterdir())
    assert found[0] == found[1]
    if sys.platform == "linux":
        assert found[0]["TALLY_DATA_DIR"] == str(data_dir)
        assert found[0]["TALLY_NAMESPACE"] == "theirs"
