"""The Valkey functions: one Lua library a file beside this one, loaded by every process at its start."""

from pathlib import Path

from libs.views.client import Coalescer, Valkey, connect


async def load_functions(valkey: Valkey) -> None:
    """Load or replace the libraries; repeatable, and safe while others call them."""
    for source in sorted(Path(__file__).parent.glob("*.lua")):
        await valkey.call("FUNCTION", "LOAD", "REPLACE", source.read_text())


def open_valkey(url: str) -> Coalescer:
    """The connection that a service shares; it loads the functions again when an emptied server lacks them."""
    return Coalescer(connect(url), repair=load_functions)
