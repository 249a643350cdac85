"""Selects votes by their attributes in the log."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import typer

from libs.contracts.pseudonyms import network_of, pseudonym
from libs.deployment.deployment import Deployment
from libs.storage.secrets import find_contest_secret
from libs.tally.errors import NotFound
from libs.tally.events import VoteCast
from services.cli.command_decorator import moment

INTERNAL = "c-free", "c-paid"
PLATFORMS = "ios", "android", "web"


@dataclass(frozen=True, slots=True)
class Options:
    """Options as given; None if absent."""

    address: str | None = None
    since: str | None = None
    until: str | None = None
    voters: Path | None = None
    anonymous: Path | None = None
    source: str | None = None
    platform: str | None = None
    participant: str | None = None
    everything: bool = False

    def check(self) -> None:
        """Validate the options. Raises `BadParameter`."""
        given = [
            self.address, self.since, self.until, self.voters, self.anonymous, self.source, self.platform,
            self.participant,
        ]  # fmt: skip
        if self.everything == any(one is not None for one in given):
            raise typer.BadParameter("Select votes by one or more options, or give --all.")
        if self.source is not None and self.source not in INTERNAL:
            remedy = 'Its counts are reported, not cast: report lower ones with "allow_decrease": true.'
            raise typer.BadParameter(
                f"{self.source} is not {' or '.join(INTERNAL)}. {remedy}", param_hint="--source"
            )
        if self.platform is not None and self.platform not in PLATFORMS:
            raise typer.BadParameter(f"One of {', '.join(PLATFORMS)}.", param_hint="--platform")


@dataclass(frozen=True, slots=True)
class Selection:
    """Matches votes by all members that are not None.

    `address` and `voters` are pseudonyms, times [since, until) in µs.
    """

    address: str | None
    since: int | None
    until: int | None
    voters: Collection[str] | None
    source: str | None
    platform: str | None
    participant: str | None

    def has(self, cast: VoteCast) -> bool:
        return (
            (self.address is None or cast.address == self.address)
            and (self.since is None or cast.accepted_at >= self.since)
            and (self.until is None or cast.accepted_at < self.until)
            and (self.voters is None or cast.voter in self.voters)
            and (self.source is None or cast.source == self.source)
            and (self.platform is None or cast.platform == self.platform)
            and (self.participant is None or any(key == self.participant for key, _ in cast.choices))
        )


async def selection(deployment: Deployment, contest: str, options: Options) -> Selection:
    """Build the selection. Raises `BadParameter`, and `NotFound` if the contest's secret is needed but missing."""
    options.check()
    address = None if options.address is None else _network(options.address)
    named = address is not None or options.voters is not None or options.anonymous is not None
    secret = await _secret(deployment, contest) if named else b""
    voters = None
    if options.voters is not None or options.anonymous is not None:
        voters = {pseudonym(secret, "voter", name) for name in _lines(options.voters)}
        voters |= {pseudonym(secret, "anonymous", name) for name in _lines(options.anonymous)}
    return Selection(
        address=None if address is None else pseudonym(secret, "address", address),
        since=None if options.since is None else moment(options.since, "--from"),
        until=None if options.until is None else moment(options.until, "--until"),
        voters=voters,
        source=options.source,
        platform=options.platform,
        participant=options.participant,
    )


def _network(address: str) -> str:
    try:
        return network_of(address)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--address") from None


async def _secret(deployment: Deployment, contest: str) -> bytes:
    secret = await find_contest_secret(deployment.store, contest)
    if secret is None:
        raise NotFound(
            f"No secret of contest {contest} is in the object store: it has no votes yet, or "
            "TALLY_STORAGE_URL names another store. Without it votes cannot be found by voter or address."
        )
    return secret


def _lines(file: Path | None) -> list[str]:
    text = "" if file is None else file.read_text("utf-8")
    return [line for line in text.splitlines() if line]
