"""Removes secrets from everything that is logged or printed: keys, passwords, signatures, callers' values."""

import re
from typing import Final

from pydantic import Secret

_RULES: Final = (
    # API keys: the part before the last underscore is the key's id, which is none
    (re.compile(r"\b(tk_[0-9a-f]{16}_)[A-Za-z0-9_-]{43}"), r"\1***"),
    (re.compile(r"\b(bearer|basic) +[^\s\"',\\]+", re.IGNORECASE), r"\1 ***"),
    # a URL's password, up to the last @ of its authority; a user name alone may be a token
    (re.compile(r"(://(?:[^:/@\s\"]*:)?)[^/\s\"]*@"), r"\1***@"),
    # query strings: signatures of upload addresses and of the object store's, voters' ids
    (re.compile(r"\?[\w.~%\[\]-]+=[^\s\"'<>\\)]*"), "?***"),
    # pydantic quotes what it was given: 50 characters, of which JSON may make some more
    (re.compile(r"input_value=.{0,1000}?(?=, input_type=)", re.DOTALL), "input_value=***"),
)


def redacted(text: str) -> str:
    """Replaces the secrets in `text`; what is JSON stays JSON."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


class SecretUrl(Secret[str]):
    """An address that may hold a password: printed, logged or shown in an error it is without."""

    def _display(self) -> str:
        return redacted(self.get_secret_value())


def revealed(url: SecretUrl | str) -> str:
    """The address as a client library takes it."""
    return url if isinstance(url, str) else url.get_secret_value()
