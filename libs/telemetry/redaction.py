"""What must never stand in a log, whoever wrote it there: keys, passwords, signatures, callers' values."""

import re
from typing import Final

_RULES: Final = (
    # API keys: the part before the last underscore is the key's id, which is none
    (re.compile(r"\b(tk_[0-9a-f]{16}_)[A-Za-z0-9_-]{43}"), r"\1***"),
    (re.compile(r"\b(bearer|basic) +[^\s\"',\\]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"(://[^:/@\s\"]*:)[^/@\s\"]+@"), r"\1***@"),
    # query strings: signatures of upload addresses and of the object store's, voters' ids
    (re.compile(r"\?[\w.~%\[\]-]+=[^\s\"'<>\\)]*"), "?***"),
    # pydantic quotes what it was given: 50 characters, of which JSON may make some more
    (re.compile(r"input_value=.{0,1000}?(?=, input_type=)", re.DOTALL), "input_value=***"),
)


def hidden(text: str) -> str:
    """`text` without its secrets; what is JSON stays JSON."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
