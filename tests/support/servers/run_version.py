"""Runs a module with other Valkey functions: `python -m tests.support.servers.run_version SOURCES MODULE ...`."""

import runpy
import sys
from pathlib import Path

from libs.views.valkey import function_libraries

if __name__ == "__main__":
    _, sources, module, *arguments = sys.argv
    function_libraries.SOURCES = Path(sources).resolve()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
