"""Alters shipped code while it is loaded: functions get the code of an altered source, in place."""

import importlib
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from tests.simulation.memory_valkey import Change

LUA = "lua"


class Mutation(NamedTuple):
    """A guard that is missing: changes of a module's text, or of the functions in Lua."""

    seed: int
    """A schedule that notices it."""
    where: str
    changes: tuple[Change, ...]


@contextmanager
def altered(mutation: Mutation | None) -> Iterator[None]:
    """Within, the code of the mutation's module is altered. Changes of Lua are for the backends."""
    if mutation is None or mutation.where == LUA:
        yield
        return
    module = importlib.import_module(mutation.where)
    source = changed = inspect.getsource(module)
    for old, new in mutation.changes:
        assert changed.count(old) == 1, f"{mutation.where} has not one {old!r}, but {changed.count(old)}"
        changed = changed.replace(old, new)
    with ExitStack() as undo:
        before, after = _codes(source, module), _codes(changed, module)
        differing = [name for name in after if before.get(name) != after[name]]
        for name in differing:
            function = _function(module, name)
            undo.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = after[name]
        assert differing, f"nothing in {mutation.where} is altered"
        yield


def _codes(source: str, module: ModuleType) -> dict[str, CodeType]:
    """Return the code of functions and methods by qualified name, without those inside of functions."""
    found: dict[str, CodeType] = {}

    def collect(code: CodeType) -> None:
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                if inner.co_flags & inspect.CO_NEWLOCALS and inner.co_flags & inspect.CO_OPTIMIZED:
                    found[inner.co_qualname] = inner
                else:
                    collect(inner)

    collect(compile(source, str(module.__file__), "exec"))
    return found


def _function(module: ModuleType, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = inspect.unwrap(getattr(found, "fget", None) or getattr(found, "__func__", None) or found)
    assert isinstance(found, FunctionType), f"{name} is no function"
    return found
