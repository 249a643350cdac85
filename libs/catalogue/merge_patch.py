"""JSON merge patch (RFC 7396), and members of list items that survive it."""

from collections.abc import Mapping
from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply `patch` to a copy of `target`: objects merge, other values replace, null removes."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def keep_item_members(
    kept: Mapping[str, tuple[str, ...]], before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    """Return `after`, whose list items keep the members in `kept` (by list) of the old item with the same `id`.

    A value in `after`, also null, takes precedence.
    """
    lists = {name: _items(kept[name], before.get(name), after[name]) for name in kept.keys() & after.keys()}
    return after | lists


def _items(members: tuple[str, ...], before: Any, after: Any) -> Any:
    if not isinstance(before, list) or not isinstance(after, list):
        return after
    held = {item["id"]: {name: item[name] for name in members if name in item} for item in before}
    return [held.get(str(item.get("id")), {}) | item if isinstance(item, dict) else item for item in after]
