"""The client's own distribution: importable where nothing of the servers is installed."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

import libs.client

pytestmark = pytest.mark.pure
FOLDER = Path(libs.client.__file__).parent
ALONE = """
import sys
NEEDED = {"tallykeeper", "httpx", "httpcore", "h11", "anyio", "sniffio", "certifi", "idna", "typing_extensions"}


class NothingElse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in NEEDED | set(sys.stdlib_module_names):
            raise ModuleNotFoundError(name, name=name)


sys.meta_path.insert(0, NothingElse())
client = __import__("tallykeeper")
assert client.Client("http://127.0.0.1:1", "tk").service_time() is None
print(client.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(command, cwd=FOLDER, check=True, capture_output=True)
    [built] = folder.glob("tallykeeper_client-*.whl")
    return built


def test_it_is_importable_with_httpx_alone(wheel: Path) -> None:
    site = Path(httpx.__file__).parents[1]
    environment = {"PYTHONPATH": os.pathsep.join([str(wheel), str(site)]), "PATH": os.environ["PATH"]}
    command = (sys.executable, "-S", "-c", ALONE)
    ran = subprocess.run(command, env=environment, cwd=wheel.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(wheel))


def test_it_has_all_modules_and_requires_httpx_only(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        modules = {name for name in archive.namelist() if ".dist-info/" not in name}
        [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(metadata).decode().splitlines()
    sources = [file for file in FOLDER.iterdir() if file.suffix in (".py", ".js", ".typed")]
    assert modules == {f"tallykeeper/{file.name}" for file in sources}
    assert [line for line in lines if line.startswith("Requires-Dist")] == ["Requires-Dist: httpx<1,>=0.28"]
