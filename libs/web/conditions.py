"""Conditional requests (RFC 9110): strong validators only."""

import re

_TAG = re.compile(r'\s*(W/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')


def etag(version: int | str) -> str:
    """The strong entity tag of a version."""
    return f'"{version}"'


def matches(condition: str | None, tag: str, *, weak: bool = False) -> bool:
    """Whether a list of entity tags, or `*`, names `tag`; `weak` comparison is for If-None-Match."""
    if condition is None:
        return False
    if condition.strip() == "*":
        return True
    return any(found == tag and (weak or not mark) for mark, found in _TAG.findall(condition))


def not_modified(if_none_match: str | None, tag: str) -> bool:
    """Whether a read is answered 304."""
    return matches(if_none_match, tag, weak=True)


def precondition_fails(if_match: str | None, tag: str) -> bool:
    """Whether a write is answered 412; without the header it never is."""
    return if_match is not None and not matches(if_match, tag)
