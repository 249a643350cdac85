"""Recorded requests of the legacy generation: what is sent, and what has to come back.

A file is a story, run line by line in order, each a JSON object:

- `rule`: what of the specification it shows;
- `method`, `path` (after the base, without `/dev`), and `json`, `form`, `multipart` or `raw` (of a `type`) as the
  body; `as` is who asks: "owner" (unless said otherwise), "other" (another brand), "anonymous", "wrong" (a key of
  another brand); `times`: so often, one after the other. In multipart "<png 40x20>" is such a picture, as a file;
- `status`, and `body` as far as there is one. In it "<any>" stands for anything, "<text>", "<time>", "<integer>"
  and "<number>" for one of these, and "<name = ...>" keeps what stands there for "{name}" further on. An object
  with "..." in it may have more members.

"{in 2h}" and "{in -30m}" are moments as seen from the story's beginning, "{brand}" and "{other}" the brands.
`current`: the line speaks to the current API, and is left out in the test env, which that cannot reach.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from tests.support.builders.pictures import picture

HERE: Final = Path(__file__).parent
_NAMED: Final = re.compile(r"\{([^{}]+)\}")
_KEPT: Final = re.compile(r"<(\w+) = (.*)>")
_AHEAD: Final = re.compile(r"in (-?\d+)([mh])")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_PICTURE: Final = re.compile(r"<(\w+) (\d+)x(\d+)>")
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {"<text>": str, "<integer>": int, "<number>": (int, float)}


@dataclass(frozen=True)
class Line:
    """One recorded request, and where it stands."""

    where: str
    recorded: dict[str, Any]

    @property
    def rule(self) -> str:
        return self.recorded["rule"]


def stories() -> dict[str, list[Line]]:
    """All files, by resource."""
    return {path.stem: _lines(path) for path in sorted(HERE.glob("*.jsonl"))}


def _lines(path: Path) -> list[Line]:
    texts = enumerate(path.read_bytes().splitlines(), 1)
    return [Line(f"{path.name}:{number}", orjson.loads(text)) for number, text in texts if text.strip()]


@dataclass
class Story:
    """A story while it runs in one environment, under `base`; `keys` are the headers of those who ask."""

    client: httpx.AsyncClient
    base: str
    slash: str
    keys: dict[str, dict[str, str]]
    named: dict[str, Any]
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def line(self, line: Line) -> None:
        """Send it. Raises `AssertionError` where something else comes back."""
        recorded = self.filled(line.recorded)
        if recorded.get("current"):
            if self.base.startswith("/legacy-test"):
                return
            address, headers = recorded["path"], self.keys["current"]
        else:
            path, mark, query = recorded["path"].partition("?")
            address = f"{self.base}{path}{self.slash}{mark}{query}"
            headers = self.keys[recorded.get("as", "owner")]
        answer = await self.client.request(recorded["method"], address, **_body(recorded, headers))
        assert answer.status_code == recorded["status"], f"{line.where}: {line.rule}: {answer.text}"
        if "body" in recorded:
            self._match(line.recorded["body"], answer.json(), f"{line.where}: {line.rule}")
        else:
            assert answer.status_code == 204 or recorded.get("current"), f"{line.where} expects no body"
            assert not answer.content or recorded.get("current"), f"{line.where}: {answer.text}"

    def filled(self, value: Any) -> Any:
        """With the names and moments that it mentions."""
        if isinstance(value, dict):
            return {self.filled(name): self.filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.filled(item) for item in value]
        if not isinstance(value, str):
            return value
        return _NAMED.sub(lambda match: str(self._name(match[1], match[0])), value)

    def _name(self, name: str, otherwise: str) -> Any:
        if ahead := _AHEAD.fullmatch(name):
            unit = timedelta(hours=1) if ahead[2] == "h" else timedelta(minutes=1)
            return (self.began + int(ahead[1]) * unit).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return self.named.get(name, otherwise)

    def _match(self, expected: Any, found: Any, where: str) -> None:
        if isinstance(expected, dict):
            assert isinstance(found, dict), f"{where}: {found!r}"
            missing, more = expected.keys() - found.keys() - {"..."}, found.keys() - expected.keys()
            assert not missing, f"{where}: {missing} missing in {found}"
            assert not more or "..." in expected, f"{where}: {more} too much"
            for name in expected.keys() - {"..."}:
                self._match(expected[name], found[name], f"{where}/{name}")
        elif isinstance(expected, list):
            assert isinstance(found, list), f"{where}: {found!r}"
            assert len(found) == len(expected), f"{where}: {found!r}"
            for number, item in enumerate(expected):
                self._match(item, found[number], f"{where}/{number}")
        elif isinstance(expected, str) and (kept := _KEPT.fullmatch(expected)):
            self._match(kept[2], found, where)
            self.named[kept[1]] = found
        elif expected == "<time>":
            assert _TIME.fullmatch(str(found)), f"{where}: {found!r}"
        elif isinstance(expected, str) and expected in _TYPES:
            assert isinstance(found, _TYPES[expected]), f"{where}: {found!r}"
        elif expected != "<any>":
            assert found == self.filled(expected), f"{where}: {found!r} is not {self.filled(expected)!r}"


def _part(text: str) -> tuple[str | None, str | bytes]:
    """Of a multipart form."""
    if (drawn := _PICTURE.fullmatch(text)) is None:
        return None, text
    return f"picture.{drawn[1]}", picture(drawn[1], int(drawn[2]), int(drawn[3]))


def _body(recorded: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Return httpx's arguments for a request's headers and body."""
    sent: dict[str, Any] = {"headers": headers}
    if "json" in recorded:
        sent["json"] = recorded["json"]
    elif "form" in recorded:
        sent["data"] = recorded["form"]
    elif "multipart" in recorded:
        sent["files"] = [(name, _part(text)) for name, text in recorded["multipart"].items()]
    elif "raw" in recorded:
        sent |= {"content": recorded["raw"], "headers": headers | {"content-type": recorded["type"]}}
    return sent
