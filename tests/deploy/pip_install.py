"""Installs the wheel by pip and runs the demo from it: `python -m tests.deploy.pip_install [INTERPRETER ...]`.

pip reads no constraints of uv: it installs the newest versions that the wheel's metadata allow.
"""

import subprocess
import sys
import tempfile
import time
from email import message_from_bytes
from pathlib import Path
from typing import Final
from zipfile import ZipFile

ROOT: Final = Path(__file__).parents[2]
UNWANTED: Final = ("ipython", "numpy", "pytest", "uplot-python")
"""Packages that an installation must not bring."""
DEMO: Final = ("demo", "--seconds", "5", "--port", "0", "--no-browser")


def build(directory: Path) -> Path:
    command = ("uv", "build", "--quiet", "--out-dir", str(directory))
    # the source first, then the wheel from it: both are complete
    subprocess.run((*command, "--sdist", str(ROOT)), check=True)
    [source] = directory.glob("*.tar.gz")
    subprocess.run((*command, "--wheel", str(source)), check=True)
    [wheel] = directory.glob("*.whl")
    return wheel


def check_wheel(wheel: Path) -> None:
    """Check the files that only a build adds, and that no link of the description leads nowhere."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(archive.read(next(name for name in names if name.endswith("/METADATA"))))
    description = str(metadata.get_payload())
    assert "tallykeeper_charts/uPlot.iife.js" in names
    assert {"libs/views/votes/01_records.lua", "libs/client/tallykeeper.js"} <= {*names}
    assert not [name for name in names if name.startswith(("tests", "deploy"))]
    assert "# Tallykeeper" in description
    links = [part.partition(")")[0] for part in description.split("](")[1:]]
    assert all(link.startswith("https:") for link in links), links


def check_installation(interpreter: str, wheel: Path, directory: Path) -> str:
    """Install the wheel with the extra `local`, run the demo away from the sources; return what was run."""
    began = time.monotonic()
    environment = directory / "environment"
    subprocess.run((interpreter, "-m", "venv", str(environment)), check=True)
    python = str(environment / "bin" / "python")
    subprocess.run((python, "-m", "pip", "install", "--quiet", f"{wheel}[local]"), check=True)
    subprocess.run((python, "-m", "pip", "check"), check=True, stdout=subprocess.DEVNULL)
    freeze = subprocess.run((python, "-m", "pip", "freeze"), check=True, capture_output=True, text=True).stdout
    names = {line.partition("==")[0].lower() for line in freeze.splitlines()}
    assert not names & set(UNWANTED), names & set(UNWANTED)
    installed = time.monotonic()
    demo = subprocess.run(
        (str(environment / "bin" / "tally"), *DEMO, "--data-dir", str(directory / "data")),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout[-4000:] + demo.stderr[-4000:]
    ended = time.monotonic()
    version = subprocess.run((python, "--version"), check=True, capture_output=True, text=True).stdout.strip()
    return f"{version}: {len(names)} packages in {installed - began:.0f} s, demo in {ended - installed:.0f} s"


def main(interpreters: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="tally-wheel-") as directory:
        wheel = build(Path(directory))
        check_wheel(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size >> 10} KiB", flush=True)
        for number, interpreter in enumerate(interpreters or [sys.executable]):
            place = Path(directory) / str(number)
            place.mkdir()
            print(check_installation(interpreter, wheel, place), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
