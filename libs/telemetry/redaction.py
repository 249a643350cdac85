"""Redaction of logs and output: removes keys, passwords, signatures and callers' values."""

import re
from typing import Final

from pydantic import Secret

_RULES: Final = (
    # API keys: the part before the last underscore is the key's id, which is not secret
    (re.compile(r"\b(tk_[0-9a-f]{16}_)[A-Za-z0-9_-]{43}"), r"\1***"),
    (re.compile(r"\b(bearer|basic) +[^\s\"',\\]+", re.IGNORECASE), r"\1 ***"),
    # a URL's password, up to the last @ of its authority; a user name alone may be a token
    (re.compile(r"(://(?:[^:/@\s\"]*:)?)[^/\s\"]*@"), r"\1***@"),
    # Kafka's addresses with credentials: user:password@host:port
    (re.compile(r"(?<![\w/:.@-])([\w.-]+:)[^\s@/,\"']+(@[\w.\[\]-]+:\d)"), r"\1***\2"),
    # query strings: signatures of upload addresses and of the object store's, voters' ids
    (re.compile(r"\?[\w.~%\[\]-]+=[^\s\"'<>\\)]*"), "?***"),
    # pydantic quotes its input: 50 characters, or a few more after JSON escaping
    (re.compile(r"input_value=.{0,1000}?(?=, input_type=)", re.DOTALL), "input_value=***"),
)


def redacted(text: str) -> str:
    """Return `text` with secrets replaced; JSON stays valid."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


class SecretUrl(Secret[str]):
    """URL whose password is removed when it is printed, logged or part of an error."""

    def _display(self) -> str:
        return redacted(self.get_secret_value())


def revealed(url: SecretUrl | str) -> str:
    """Return the URL with its password, for client libraries."""
    return url if isinstance(url, str) else url.get_secret_value()
