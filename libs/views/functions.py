"""The Valkey functions: one Lua library a file beside this one, loaded by every process at its start."""

from pathlib import Path

from libs.views.client import Valkey


async def load_functions(valkey: Valkey) -> None:
    """Load or replace the libraries; repeatable, and safe while others call them."""
    for source in sorted(Path(__file__).parent.glob("*.lua")):
        await valkey.call("FUNCTION", "LOAD", "REPLACE", source.read_text())
