"""Texts of the pages in other languages than English."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import services.dashboard

HERE: Final = Path(services.dashboard.__file__).parent
USED: Final = re.compile(r'\b(?:t|mark)\(\s*"((?:[^"\\]|\\.)*)"')
CHOSEN: Final = re.compile(r'\bt\([^"()]*\?\s+"([^"]+)"\s+:\s+"([^"]+)"')
KEY: Final = re.compile(r'^  (?:"((?:[^"\\]|\\.)*)"|([A-Za-z]\w*)):', re.MULTILINE)
SAME: Final = {"Tallykeeper", "CSV", "PNG", "kbd", "results:read", "content:write", "JavaScript"} | {
    f"Top {number}" for number in (10, 25, 100)
}


class Texts(HTMLParser):
    """Collects the texts and the attributes that the pages translate."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.found |= {value for name, value in attrs if name in ("aria-label", "placeholder", "title") and value}

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"kbd", "title", "noscript"} & set(self._open):
            self.found.add(data.strip())


def used() -> set[str]:
    found: set[str] = set()
    for path in HERE.glob("assets/**/*.js"):
        text = path.read_text()
        found |= set(USED.findall(text)) | {each for pair in CHOSEN.findall(text) for each in pair}
    for path in HERE.glob("html/*.html"):
        parser = Texts()
        parser.feed(path.read_text())
        found |= parser.found
    return {
        text for text in found if re.search(r"[A-Za-z]{2}", text) and not text.startswith(("http", "tk_", "$"))
    }


def test_every_text_of_the_pages_has_a_german_one_and_none_is_left_over() -> None:
    texts = "".join(path.read_text() for path in HERE.glob("assets/german*.js"))
    german = {quoted or plain for quoted, plain in KEY.findall(texts)}
    assert not used() - SAME - german
    assert not german - used()
