"""Selects votes by their address, time, voter, source, platform or participant."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final

from typer import BadParameter, Option

from libs.audit.recount import read_secret
from libs.contracts.ip_addresses import network_of
from libs.contracts.pseudonyms import pseudonym
from libs.deployment.deployment import Deployment
from libs.tally.contest import Contest
from libs.tally.events import VoteCast
from services.cli.command_decorator import moment

INTERNAL: Final = "c-free", "c-paid"
PLATFORMS: Final = "ios", "android", "web"
PSEUDONYM: Final = re.compile(r"[A-Za-z0-9_-]{22}")
MOST_ADDRESSES: Final = 4_096
"""Addresses of a network that are looked for: the log holds the pseudonym of each."""
IPV6_UNIT: Final = 64
"""Length of the prefix that counts as one IPv6 address."""


@dataclass(frozen=True, slots=True)
class VoteSelection:
    """Options that select votes; None if absent."""

    address: Annotated[
        str | None,
        Option(help="Cast from this IP address (IPv6: from its /64) or network, or from an address's pseudonym."),
    ] = None
    since: Annotated[str | None, Option("--from", help="Accepted at this time or later.")] = None
    until: Annotated[str | None, Option(help="Accepted before this time.")] = None
    voters: Annotated[
        Path | None, Option(exists=True, dir_okay=False, help="Of the voters in this file, one id per line.")
    ] = None
    anonymous: Annotated[
        Path | None, Option(exists=True, dir_okay=False, help="Of the anonymous voters in this file, too.")
    ] = None
    source: Annotated[str | None, Option(help="c-free or c-paid.")] = None
    platform: Annotated[str | None, Option(help="ios, android or web.")] = None
    participant: Annotated[str | None, Option(help="For the participant with this key.")] = None
    everything: Annotated[bool, Option("--all", help="All votes of the contest.")] = False

    def check(self) -> None:
        """Validate the options. Raises `BadParameter`."""
        if self.everything == self.is_some:
            raise BadParameter("Select votes by one or more options, or give --all.")
        self.check_values()

    @property
    def is_some(self) -> bool:
        """Whether an option selects some votes."""
        return any(getattr(self, field.name) is not None for field in fields(self) if field.name != "everything")

    def check_values(self) -> None:
        """Validate the values of the given options. Raises `BadParameter`."""
        if self.source is not None and self.source not in INTERNAL:
            remedy = 'Its counts are reported, not cast: report lower ones with "allow_decrease": true.'
            raise BadParameter(f"{self.source} is not {' or '.join(INTERNAL)}. {remedy}", param_hint="--source")
        if self.platform is not None and self.platform not in PLATFORMS:
            raise BadParameter(f"One of {', '.join(PLATFORMS)}.", param_hint="--platform")

    async def matcher(self, deployment: Deployment, contest: Contest) -> Callable[[VoteCast], bool]:
        """Return whether a vote matches all options that are given.

        Raises `BadParameter`, and `NotFound` if the contest's secret is needed but missing.
        """
        if self.participant is not None and self.participant not in contest.participants:
            unknown = f"The contest has no participant {self.participant}."
            raise BadParameter(unknown, param_hint="--participant")
        since = None if self.since is None else moment(self.since, "--from")
        until = None if self.until is None else moment(self.until, "--until")
        by_voter = self.voters is not None or self.anonymous is not None
        units = None if self.address is None else units_of(self.address)
        secret = await read_secret(deployment, contest.key) if by_voter or units else b""
        addresses = {pseudonym(secret, "address", unit) for unit in units or ()} or {self.address or ""}
        voters = {pseudonym(secret, "voter", name) for name in _lines(self.voters)}
        voters |= {pseudonym(secret, "anonymous", name) for name in _lines(self.anonymous)}
        return lambda cast: (
            (self.address is None or cast.address in addresses)
            and (since is None or cast.accepted_at >= since)
            and (until is None or cast.accepted_at < until)
            and (not by_voter or cast.voter in voters)
            and (self.source is None or cast.source == self.source)
            and (self.platform is None or cast.platform == self.platform)
            and (self.participant is None or any(key == self.participant for key, _ in cast.choices))
        )


def _lines(file: Path | None) -> list[str]:
    text = "" if file is None else file.read_text("utf-8")
    return [line for line in text.splitlines() if line]


def units_of(address: str) -> list[str]:
    """Return the addresses, as of `network_of`, of an address or network; none for a pseudonym.

    Raises `BadParameter`.
    """
    if PSEUDONYM.fullmatch(address):
        return []
    try:
        if "/" not in address:
            return [network_of(address)]
        network = ip_network(address)
    except ValueError as error:
        raise BadParameter(str(error), param_hint="--address") from None
    length = network.max_prefixlen if network.version == 4 else IPV6_UNIT
    number = 1 << max(0, length - network.prefixlen)
    if number > MOST_ADDRESSES:
        raise BadParameter(f"{address} has more than {MOST_ADDRESSES:,} addresses.", param_hint="--address")
    step = 1 << (network.max_prefixlen - length)
    first = network.network_address
    return [network_of(str(first + at * step)) for at in range(number)]
