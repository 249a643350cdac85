"""Documents and docstrings name files that exist, and links in documents lead somewhere."""

import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("libs", "services", "tests", "deploy")
NAMED = re.compile(r"`((?:\.\./)*[\w./*-]+\.(?:py|lua|js|css|html|md))`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@cache
def texts() -> dict[Path, str]:
    """Return the text of every document, and of every source file that may name another one."""
    files = [ROOT / "README.md", *(path for name in FOLDERS for path in sorted((ROOT / name).rglob("*")))]
    return {
        path.relative_to(ROOT): path.read_text() for path in files if path.suffix in {".md", ".py", ".lua", ".js"}
    }


@cache
def endings() -> set[str]:
    """Return every ending of every path, such as `libs/tally/fold.py`, `tally/fold.py` and `fold.py`."""
    files = (path.relative_to(ROOT).parts for name in FOLDERS for path in (ROOT / name).rglob("*"))
    return {"README.md"} | {"/".join(parts[start:]) for parts in files for start in range(len(parts))}


def exists(name: str) -> bool:
    name = name.replace("../", "")
    return name in endings() or ("*" in name and any(fnmatch(path, name) for path in endings()))


def test_files_named_in_prose_exist() -> None:
    named = [(path, match[1]) for path, text in texts().items() for match in NAMED.finditer(text)]
    assert len(named) > 100
    assert [f"{path}: {name}" for path, name in named if not exists(name)] == []


def test_links_in_documents_lead_to_files() -> None:
    links = [
        (path, match[1]) for path, text in texts().items() if path.suffix == ".md" for match in LINK.finditer(text)
    ]
    assert len(links) > 20
    assert [f"{path}: {link}" for path, link in links if not (ROOT / path.parent / link).exists()] == []
