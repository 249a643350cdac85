"""Java's cache of Kafka's classes is made once and used by every later start; a start without it succeeds, too."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from libs.local_stack import kafka_aot_cache
from libs.local_stack.child_process import Reaper
from libs.local_stack.startup_report import Silence
from tests.support.eventually import eventually

JAVA = """#!/bin/sh
echo started >> {runs}
{write} trap 'echo cache > "${{1#-XX:AOTCacheOutput=}}"; exit 0' TERM
echo "{says}"
while true; do sleep 0.05; done
"""


class Runtime:
    """A Java runtime whose program stands in for a broker that writes its cache when it ends."""

    def __init__(
        self, home: Path, *, version: str = "25.0.2", says: str = "Kafka Server started", write: str = ""
    ):
        self.cache, self.runs = home / "cache", home / "runs"
        for directory in (self.cache, home / "bin", home / "lib"):
            directory.mkdir(parents=True)
        (home / "lib" / "modules").touch()
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
        self.java = home / "bin" / "java"
        self.java.write_text(JAVA.format(runs=self.runs, says=says, write=write))
        self.java.chmod(0o755)
        self.stop = threading.Event()

    def options(self) -> list[str]:
        reaper = Reaper()
        try:
            return kafka_aot_cache.options(
                self.java, [], self.cache, lambda _: [str(self.java)], reaper, Silence(), self.stop
            )
        finally:
            reaper.close()


def test_concurrent_starts_make_one_cache_and_later_ones_use_it(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "java")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: runtime.options(), range(2))
    [option] = first
    assert first == second == runtime.options()
    assert Path(option.removeprefix("-XX:AOTCache=")).read_text() == "cache\n"
    assert runtime.runs.read_text() == "started\n"


def test_another_runtime_replaces_the_cache(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "java")
    before = runtime.options()
    (tmp_path / "java" / "lib" / "modules").write_text("of another version")
    assert runtime.options() != before
    assert len(list(runtime.cache.glob("*.aot"))) == 1


def test_an_older_java_starts_without_a_cache(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "java", version="21.0.1")
    assert runtime.options() == []
    assert not runtime.runs.exists()


def test_a_java_that_writes_no_cache_is_tried_once(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "java", write="trap 'exit 1' TERM #")
    assert runtime.options() == runtime.options() == []
    assert runtime.runs.read_text() == "started\n"


async def test_a_cancelled_start_leaves_no_broker_and_no_cache(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "java", says="not yet")
    threading.Timer(0.2, runtime.stop.set).start()
    assert runtime.options() == []
    assert not any(runtime.cache.glob("*.aot"))
    # what the killed shell had just forked takes a moment to end
    await eventually(
        lambda: all(
            str(runtime.java) not in (one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])
        )
    )
