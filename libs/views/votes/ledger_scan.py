"""Pages through a partition's stored ledger, to compare it with another fold (`tally verify`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from libs.contracts.log_records import Position
from libs.contracts.votes_log import VotesLog, votes_log
from libs.tally.voter_ledger import VoterLedger, largest
from libs.views.generations.key_scan import generation_keys
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import read_function, unpack
from libs.views.valkey.hash_tags import base_in
from libs.views.votes.serialization import SOURCES
from libs.views.votes.vote_records import DIGEST_SIZE, StoredRecord, read_record, record_size, split_records

INLINE: Final = 8
"""Number of a voter's latest records stored with the voter; older ones are spilled into another hash."""
OWN: Final = 50
"""Number of participants whose sums and slots are stored with the voter; those of later ones lie in shares."""
SHARE: Final = 16
"""Number of successive participants whose sums and slots lie in one share."""
SHARE_NUMBER_SIZE: Final = 3
PAGE: Final = 250
PAGES: Final = {"reports": 16, "shares": 32}
"""Approximate number of fields read by one call, and of hashes whose values are longer than others."""

SumKey = tuple[int, str, int]
"""(participant's index, 0 for the contest; source; epoch)"""


class VoterRow(NamedTuple):
    """One voter: latest records as bytes, number of spilled older ones, and sums as (votes used, limit, active).

    `last_spilled` is the digest of the latest spilled one; empty without any.

    `epoch` and `latest` (us) are 0 unless allowances renew; `slots` are vote id digests by (participant's index,
    source).
    """

    records: list[bytes]
    spilled: int
    last_spilled: bytes
    used: dict[SumKey, tuple[int, int, int]]
    anonymous: bool
    epoch: int
    latest: int
    slots: dict[tuple[int, str], bytes]
    names: Mapping[bytes, str] = {}
    """Vote ids by digest, in a row that a fold expects."""

    def __str__(self) -> str:
        return f"{len(self.records) + self.spilled} vote ids"


@dataclass(frozen=True, slots=True)
class Share:
    """Sums and slots of a voter's participants that are not in the `VoterRow`, as there.

    Periods that were over before the share was last used are merged.
    """

    used: dict[SumKey, tuple[int, int, int]]
    slots: dict[tuple[int, str], bytes]

    def merged(self, epoch: int) -> "Share":
        """Return the share with all periods merged that are over in the allowance period `epoch`."""
        ledger, used = VoterLedger(epoch=epoch), dict[SumKey, tuple[int, int, int]]()
        for (index, source, its), (votes, limit, active) in self.used.items():
            key = index, source, ledger.kept_epoch(source, its)
            before, bound, counted = used.get(key, (0, None, 0))
            used[key] = before + votes, largest(bound, limit), counted + active
        return Share(used, self.slots)


class HashPage(NamedTuple):
    """A page of one of a contest's hashes at `position`: fields with their stored values; one may occur twice."""

    position: Position
    rows: list[tuple[bytes, bytes]]


class LedgerScan:
    """Pages through ledgers of the live generation, or another one. Raises `ViewsUnavailable`.

    A page is one atomic call of some 0.1 ms. The pages contain all voters that the ledger had at the start.
    """

    def __init__(
        self, valkey: Valkey, namespace: str, partitions: int | VotesLog, *, generation: int | None = None
    ) -> None:
        self._valkey = valkey
        self._namespace = namespace
        self._log = votes_log(namespace, partitions)
        self._generation = generation

    async def contests(self) -> dict[int, set[str]]:
        """Return the contests with data in each partition, by a SCAN over all keys of the server."""
        held: dict[tuple[int, int], set[str]] = {}
        async for found in generation_keys(self._valkey, self._namespace, "votes", self._log):
            _, colon, contest = found.name.partition(":")
            if colon:
                held.setdefault((found.partition, found.generation), set()).add(contest)
        return await self._of_generation(held)

    def _base(self, partition: int) -> str:
        return base_in(self._log, self._namespace, "votes", partition)

    async def _of_generation(self, held: Mapping[tuple[int, int], set[str]]) -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for partition in {partition for partition, _ in held}:
            number = self._generation
            if number is None:
                live = await self._valkey.call("HGET", f"{self._base(partition)}:generations", "live")
                number = int(live or 1)
            found[partition] = held.get((partition, number), set())
        return found

    async def fields(self, partition: int, name: str, contest: str) -> list[HashPage]:
        """Read all pages of one of the contest's hashes, by its name in `votes/01_records.lua`."""
        pages: list[HashPage] = []
        cursor: str | None = "0"
        while cursor is not None:
            position, cursor, flat = await self._page(partition, name, contest, cursor)
            pages.append(HashPage(position, list(_pairs(flat))))
        return pages

    async def _page(
        self, partition: int, name: str, contest: str, cursor: str
    ) -> tuple[Position, str | None, Sequence[bytes]]:
        args = name, contest, cursor, PAGES.get(name, PAGE), "" if self._generation is None else self._generation
        reply = await read_function(self._valkey, "votes_page", self._base(partition), *args)
        log, offset, following, flat = unpack(reply)
        return Position(log.decode(), offset), None if following == b"0" else following.decode(), flat


def read_spilled(value: bytes) -> tuple[StoredRecord, bytes]:
    """Decode a value of the hash `spill`: the record, and the digest of the one spilled before it.

    The record's own digest is in the field's name; it is empty in the result.
    """
    record = value[:1] + bytes(DIGEST_SIZE) + value[1:]
    return replace(read_record(record), digest=b""), record[record_size(record) :]


def read_voter(value: bytes) -> VoterRow:
    """Decode a value of the hash `voters`."""
    stored: list[Any] = unpack(value)
    records, spills, sums, anonymous = stored[:4]
    spilled, last = (int.from_bytes(spills[:4], "big"), spills[4:]) if spills else (0, b"")
    epoch, latest, slots = stored[4:] + [0, 0, []][len(stored) - 4 :]
    return VoterRow(
        list(split_records(records)), spilled, last, _used(sums), anonymous == 1, epoch, latest, _slots(slots)
    )


def read_share(value: bytes) -> Share:
    """Decode a value of the hash `shares`."""
    sums, slots = [*unpack(value), []][:2]
    return Share(_used(sums), _slots(slots))


def _used(sums: Sequence[int]) -> dict[SumKey, tuple[int, int, int]]:
    return {
        (key // 2 % 2**24, SOURCES[key % 2], key // 2**25): (votes, limit, active)
        for key, votes, limit, active in zip(sums[::4], sums[1::4], sums[2::4], sums[3::4], strict=True)
    }


def _slots(slots: Sequence[Any]) -> dict[tuple[int, str], bytes]:
    return {(key // 2, SOURCES[key % 2]): name for key, name in zip(slots[::2], slots[1::2], strict=True)}


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
