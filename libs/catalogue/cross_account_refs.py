"""Access to records that their account shares with all others, such as images for public use."""

from collections.abc import Collection
from typing import Protocol

from libs.catalogue.outcome_errors import Refs
from libs.catalogue.resource_definition import Resource, Table
from libs.contracts.catalogue_events import Ref, Stored


class OwnerReader(Protocol):
    """Reads records and their owners from the catalogue's views."""

    async def get(self, account: str, resource: str, key: str) -> Stored | None: ...

    async def find_owner(self, resource: str, key: str) -> str | None: ...


async def find_shared(views: OwnerReader, row: Resource, key: str) -> tuple[str, Stored] | None:
    """Return a shared record with its owner, or None."""
    owner = None if row.shared is None else await views.find_owner(row.name, key)
    stored = None if owner is None else await views.get(owner, row.name, key)
    if owner is None or stored is None or row.shared is None or not row.shared(stored.document):
        return None
    return owner, stored


async def find_usable(views: OwnerReader, row: Resource, account: str, key: str) -> tuple[str, Stored] | None:
    """Return the account's own record, or one shared by another account, with its owner."""
    own = await views.get(account, row.name, key)
    return (account, own) if own is not None else await find_shared(views, row, key)


async def without_shared(
    views: OwnerReader, table: Table, account: str, refs: Refs, held: Collection[Ref]
) -> Refs:
    """Return the references of an account's record without those to other accounts' shared records.

    References in `held`, which the record had before, stay allowed if their target is no longer shared.
    """

    async def is_shared(ref: Ref) -> bool:
        row = table.get(ref[0])
        if row is None or row.shared is None or await views.get(account, *ref) is not None:
            return False
        return ref in held or await find_shared(views, row, ref[1]) is not None

    return {where: ref for where, ref in refs.items() if not await is_shared(ref)}
