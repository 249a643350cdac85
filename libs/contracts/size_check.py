"""Comparison of a write's values with the limits that mark the members of its schema (`limits.py`)."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from libs.contracts.limits import Limit

Steps = tuple[str | int, ...]


class Excess(NamedTuple):
    """A value that is larger than its limit."""

    steps: Steps
    message: str


class Place(NamedTuple):
    """The limits of a value, of its members by name, and of its items: those of a list, or values of a mapping."""

    limits: tuple[Limit, ...] = ()
    members: Mapping[str, "Place"] = {}
    items: "Place | None" = None


def excesses(model: type[BaseModel], body: Any, before: Any = None) -> Iterator[Excess]:
    """Yield the values of `body` that are larger than their limits and than they were in `before`.

    Items of lists are compared with those of the same `key` or `id`, or else at the same index.
    """
    yield from _within(_place_of(model), body, before, ())


def _within(place: Place, value: Any, before: Any, steps: Steps) -> Iterator[Excess]:
    found = _message(place.limits, value, before)
    if found:
        yield Excess(steps, found)
    elif isinstance(value, Mapping):
        held = before if isinstance(before, Mapping) else {}
        for name, member in value.items():
            within = place.members.get(name, place.items)
            if within is not None:
                yield from _within(within, member, held.get(name), (*steps, name))
    elif isinstance(value, list) and place.items is not None:
        by_index = before if isinstance(before, list) else []
        by_name = {name: item for item in by_index if (name := _name(item))}
        for index, item in enumerate(value):
            name = _name(item)
            old = by_name.get(name) if name else by_index[index] if index < len(by_index) else None
            yield from _within(place.items, item, old, (*steps, index))


def _message(limits: Iterable[Limit], value: Any, before: Any) -> str:
    for limit in limits:
        held: dict[str, int] | None = None
        for size, most, unit in limit.sizes(value):
            if size <= most:
                continue
            if held is None:
                held = {unit: size for size, _, unit in limit.sizes(before)}
            if size > held.get(unit, 0):
                return f"must have at most {most:,} {unit}, not {size:,}"
    return ""


def _name(item: Any) -> str:
    name = (item.get("key") or item.get("id")) if isinstance(item, Mapping) else None
    return name if isinstance(name, str) else ""


@cache
def _place_of(model: type[BaseModel]) -> Place:
    fields = model.model_fields.items()
    members = {
        field.alias or name: place
        for name, field in fields
        if (place := _place(field.annotation, field.metadata)) != Place()
    }
    return Place(members=members)


def _place(annotation: Any, metadata: Iterable[Any] = ()) -> Place:
    """Return the limits of a member's type: those of all its alternatives, and of what is in it."""
    place = Place(tuple(each for each in metadata if isinstance(each, Limit)))
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
        return _joined(place, _place(annotation, marks))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _joined(place, _place_of(annotation))
    within = [each for each in map(_place, get_args(annotation)) if each != Place()]
    if get_origin(annotation) in (list, dict):
        return place._replace(items=within[-1] if within else None)
    for each in within:
        place = _joined(place, each)
    return place


def _joined(one: Place, other: Place) -> Place:
    return Place(one.limits + other.limits, {**one.members, **other.members}, other.items or one.items)
