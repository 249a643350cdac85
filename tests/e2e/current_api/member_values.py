"""Values of records' members: accepted, rejected, and the value of a cleared member."""

from dataclasses import dataclass, replace
from typing import Any, Final


@dataclass(frozen=True)
class Key:
    """Stands for the key of one of two records that a test has."""

    resource: str
    number: int = 0


@dataclass(frozen=True)
class Kind:
    """`shown` is what `second` reads as, where that is another value, and `merged` what it is after `first`.

    `wrong` values are refused by themselves, `dangling` ones because they name no record. What is `required`
    cannot be cleared; any other member reads as `unset` then.
    """

    first: Any
    second: Any
    wrong: tuple[Any, ...] = ()
    unset: Any = None
    shown: Any = None
    merged: Any = None
    dangling: tuple[Any, ...] = ()
    required: bool = False

    def changed(self, is_in_list: bool) -> Any:
        """Return the value read after a change of `first` to `second`: lists are replaced, objects merged."""
        found = (self.shown, self.second) if is_in_list else (self.merged, self.shown, self.second)
        return next(value for value in found if value is not None)


TEXT: Final = Kind("One", "Zwei ☃", (5, True, ["a"], {"a": 1}))
NEEDED: Final = replace(TEXT, required=True)
ID: Final = Kind("one", "two", (5, "", "x" * 65, []), required=True)
FLAG: Final = Kind(True, False, ("true", 1, 0, []), unset=False)
FLAG_UNLESS: Final = Kind(False, True, FLAG.wrong, unset=True)
WHOLE: Final = Kind(-3, 4, ("3", 1.5, True, {}))
COUNT: Final = Kind(3, 0, ("3", 1.5, True, -1, 2**31))
NUMBER: Final = Kind(0.5, 2, ("0.5", True, []))
TIME: Final = Kind(
    "2036-05-01T18:00:00.123456Z",
    "2036-05-02t20:00:00.5+02:00",
    ("tomorrow", 5, "2036-05-01T18:00:00", "2036-02-30T18:00:00Z"),
    shown="2036-05-02T18:00:00.500000Z",
)
FREE: Final = Kind(
    {"any": [1, None, {"deep": True}]},
    {"other": {}},
    ("x", 5, []),
    unset={},
    merged={"any": [1, None, {"deep": True}], "other": {}},
)
LIST: Final = Kind([{"a": 1}, "b", 3], [[]], ("x", {}, 5), unset=[])
TEXTS: Final = Kind(["a", "b"], ["c"], ("a", [1], [None]), unset=[])
ACCESS: Final = Kind("public", "private", ("secret", 5, True), unset="private")
MEDIA_TYPE: Final = Kind("text/plain", "application/pdf", ("text", 5, "a/b\nc"), required=True)
PART: Final = Kind({}, {}, ("x", 5, []))
"""An object whose members have rows of their own."""
ITEMS: Final = Kind([], [], ("x", {}, ["x"]))
"""A list of such objects."""
SERVER: Final = Kind(None, None)
"""The server's own: what a body says of it is ignored."""


def count(unset: int) -> Kind:
    return replace(COUNT, unset=unset)


def limit(unset: int | None, *also_wrong: int) -> Kind:
    """-1 is unlimited."""
    return Kind(5, -1, ("3", 1.5, True, -2, 2**31, *also_wrong), unset=unset)


def one_of(unset: str, other: str) -> Kind:
    """A closed enumeration."""
    return Kind(other, unset, ("another", 5, True), unset=unset)


def template(*placeholders: str) -> Kind:
    both = " ".join(f"{{{name}}}" for name in placeholders)
    return Kind(f"{both}{{}} {{nobody}}", both, (5,))


def key_of(resource: str) -> Kind:
    """The key of a record, or the id of a part of one."""
    return Kind(Key(resource), Key(resource, 1), (5, []), dangling=("nothing", "\x00", "x" * 401))


def linked(resource: str) -> Kind:
    """A free-form object whose `key` is that of a record."""
    return Kind(
        {"key": Key(resource), "x": 1},
        {"key": Key(resource, 1)},
        ("x", [], {"key": 5}),
        unset={},
        merged={"key": Key(resource, 1), "x": 1},
        dangling=({"key": "nothing"}, {"key": "\x00"}),
    )
