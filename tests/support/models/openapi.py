"""The tracked documents of the API and of the log, as served by the gateway, in a form whose diff can be read.

YAML; what fits is on one line. The operations of the legacy test environment are left out: they are those of
production under another base path.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

ROOT: Final = Path(__file__).parents[3]
OPENAPI: Final = ROOT / "services/gateway/openapi.yaml"
ASYNCAPI: Final = ROOT / "libs/contracts/asyncapi.yaml"
WIDTH: Final = 110
PRODUCTION, TEST = "/legacy/", "/legacy-test/"


@cache
def read_tracked(path: Path = OPENAPI) -> dict[str, Any]:
    """Return a document, parsed once in a process: callers do not change it."""
    return yaml.load(path.read_bytes(), yaml.CSafeLoader)


def write_tracked(document: dict[str, Any], path: Path = OPENAPI) -> None:
    path.write_text(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2 * WIDTH))
    read_tracked.cache_clear()


def without_test_environment(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the operations of the legacy test environment, which must be those of production."""
    paths = document["paths"]
    alike = {path.replace(TEST, PRODUCTION): paths[path] for path in paths if path.startswith(TEST)}
    for path, methods in alike.items():
        renamed = (
            orjson.dumps(methods).replace(b'"legacy_test_', b'"legacy_').replace(b'"Legacy test: ', b'"Legacy: ')
        )
        assert orjson.loads(renamed) == paths[path], path
    assert alike.keys() == {path for path in paths if path.startswith(PRODUCTION)}
    return document | {"paths": {path: methods for path, methods in paths.items() if not path.startswith(TEST)}}


def resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """The component that `value` refers to, or `value` itself."""
    if "$ref" not in value:
        return value
    found = document
    for step in value["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _: Any) -> bool:
        return True


def _mapping(dumper: _Dumper, value: dict[str, Any]) -> yaml.Node:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", value)
    node.flow_style = len(orjson.dumps(value)) <= WIDTH
    return node


def _sequence(dumper: _Dumper, value: list[Any]) -> yaml.Node:
    node = dumper.represent_sequence("tag:yaml.org,2002:seq", value)
    node.flow_style = len(orjson.dumps(value)) <= WIDTH
    return node


_Dumper.add_representer(dict, _mapping)
_Dumper.add_representer(list, _sequence)
