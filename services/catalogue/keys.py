"""API keys of an account, managed with keys that have `keys:manage`.

A new key has at most the calling key's permissions, validity, networks and rate, and its requests count towards
the calling key's rate, too. A key revokes only what it could have made. A revoked key's descendants end with it:
whoever held it may have made them. Where a maker is replaced, not distrusted, they can be kept.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from libs.catalogue.api_keys import checked_key, issue_key, keys_of, revoke_key
from libs.catalogue.commands import CommandWriter, WriteRequest
from libs.catalogue.errors import UnknownKey
from libs.contracts.catalogue_events import KeyAncestor, KeyRow, KeyRules
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp
from libs.views.api_key_uses import KeyUses
from libs.views.catalogue_views import CatalogueViews
from libs.web.auth import ApiKey
from libs.web.errors import Forbidden, Unauthorized

MAX_KEYS: Final = 1_000
"""Keys of one account: every process keeps all keys in memory."""
MAX_ANCESTORS: Final = 4
"""Keys that a key may descend from: its requests count towards the rate of each."""


class StrongerKey(TallyError):
    """The key may do more than the one that would revoke it."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class Made:
    """A key; its text is "" in the answer to a repeated request."""

    row: KeyRow
    api_key: str


class AccountKeys:
    """The keys of production's accounts. `rate` is the limit of keys without their own, 0: none."""

    def __init__(self, writer: CommandWriter, views: CatalogueViews, uses: KeyUses, rate: int) -> None:
        self._writer = writer
        self._views = views
        self._uses = uses
        self._rate = rate

    async def all(self, account: str) -> list[KeyRow]:
        """Return the account's keys, newest first."""
        return await keys_of(self._views, account)

    async def last_used(self, rows: Sequence[KeyRow]) -> dict[str, int]:
        """Return the minute of the keys' last use (us), of those that were used."""
        return await self._uses.last_of([row.key_id for row in rows])

    async def get(self, account: str, key_id: str) -> KeyRow:
        """Return a key. Raises `UnknownKey`, also for one of another account."""
        found = next((row for row in await self.all(account) if row.key_id == key_id), None)
        if found is None:
            raise UnknownKey(f"There is no key {key_id}.")
        return found

    async def create(
        self, caller: ApiKey, permissions: Sequence[str], rules: KeyRules, request: WriteRequest
    ) -> Made:
        """Issue a key; rules that are left out are those of the calling key.

        Raises `Forbidden` for a permission that the caller lacks, `Unauthorized` if it has been revoked, and as
        `issue_key`.
        """
        rules = inherited(caller, rules)
        rules, granted = checked_key(permissions, rules, self._writer.now(), self._excesses(caller, rules))
        lacking = next((each for each in granted if each not in caller.permissions), None)
        if lacking is not None:
            raise Forbidden(lacking)
        if len(caller.ancestors) >= MAX_ANCESTORS:
            raise ValidationFailed([Problem("", f"a key descends from at most {MAX_ANCESTORS} others")])
        existing = await self.all(caller.account)
        if len(existing) >= MAX_KEYS and _of_request(existing, request) is None:
            raise ValidationFailed([Problem("", f"an account has at most {MAX_KEYS} keys: delete one first")])
        above = (
            *(KeyAncestor(key.key_id, key.rate) for key in caller.ancestors),
            KeyAncestor(caller.key_id, caller.rate),
        )
        try:
            issued = await issue_key(self._writer, caller.account, granted, rules, request, above)
        except UnknownKey as error:
            raise Unauthorized("This API key has been revoked.") from error
        row = _of_request(await self.all(caller.account), request)
        if row is None:
            raise UnknownKey("The key that this request made has been revoked.")
        return Made(row, issued.api_key if row.key_id == issued.key_id else "")

    async def revoke(self, caller: ApiKey, key_id: str, keeps_descendants: bool) -> None:
        """Revoke a key of the caller's account at once, and its descendants unless they are kept.

        Raises `UnknownKey`, `Forbidden` and `StrongerKey` if it may do more than the caller, and the errors of
        `CommandWriter.record`.
        """
        existing = await self.all(caller.account)
        row = next((row for row in existing if row.key_id == key_id), None)
        if row is None:
            raise UnknownKey(f"There is no key {key_id}.")
        if caller.key_id not in (key_id, *(ancestor.key_id for ancestor in row.ancestors)):
            self._check_weaker(row, caller)
        await revoke_key(self._writer, row, keeps_descendants)
        for other in existing:
            if other is row or (not keeps_descendants and other.descends_from(key_id)):
                await self._uses.forget(other.key_id)

    def _check_weaker(self, row: KeyRow, caller: ApiKey) -> None:
        """Raise `Forbidden` or `StrongerKey` for a key that the caller could not have made."""
        lacking = next((each for each in row.permissions if each not in caller.permissions), None)
        if lacking is not None:
            raise Forbidden(lacking)
        if self._excesses(caller, row.rules):
            raise StrongerKey("A key can revoke only keys with at most its own validity, networks and rate.")

    def _excesses(self, caller: ApiKey, rules: KeyRules) -> list[Problem]:
        """Return a problem for each rule that is wider than the caller's."""
        problems = []
        if caller.expires is not None and (rules.expires is None or rules.expires > caller.expires):
            problems.append(Problem("/expires", f"must not be after {timestamp(caller.expires)}, as of this key"))
        if caller.networks and not (
            rules.networks and all(_is_within(network, caller) for network in rules.networks)
        ):
            own = ", ".join(map(str, caller.networks))
            problems.append(Problem("/networks", f"must be within the networks of this key: {own}"))
        own_rate, rate = (self._rate if each is None else each for each in (caller.rate, rules.rate))
        if own_rate and (rate == 0 or rate > own_rate):
            problems.append(Problem("/rate", f"must be from 1 to {own_rate}, the rate of this key"))
        return problems


def inherited(caller: ApiKey, rules: KeyRules) -> KeyRules:
    """Return the rules with those of the caller in place of the ones that are left out."""
    return replace(
        rules,
        expires=caller.expires if rules.expires is None else rules.expires,
        networks=rules.networks or tuple(map(str, caller.networks)),
        rate=caller.rate if rules.rate is None else rules.rate,
    )


def _of_request(rows: Sequence[KeyRow], request: WriteRequest) -> KeyRow | None:
    """Return the key that this request, or an earlier one that it repeats, has made."""
    return next((row for row in rows if row.command_id == request.command_id), None)


def _is_within(text: str, caller: ApiKey) -> bool:
    """Return whether a network is within one of the caller's; an invalid one is reported elsewhere."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return True
    return any(
        network.version == own.version and network.subnet_of(own)  # type: ignore[arg-type]
        for own in caller.networks
    )
