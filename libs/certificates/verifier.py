#!/usr/bin/env python3
"""Verifies a certificate, and a voter's proof, against an export of the log. Needs Python 3.10 and nothing else.

    python3 verifier.py CERTIFICATE --export DIRECTORY [--proof PROOF]

It shares no code with Tallykeeper. `deploy/guides/certificates.md` says what it computes, for those who would
rather write their own. Exit codes: 0 everything matches, 1 it does not, 2 a file cannot be read.
"""

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

Event = dict[str, Any]
ZERO = [0, 0, 0]
WHOLE = 2**53
ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


class BrokenFile(Exception):
    """A file is missing, incomplete, or has another form."""


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def canonical(value: Event) -> bytes:
    """Return JSON by RFC 8785; all numbers here are whole."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Export:
    """A directory of `tally export`: a file for each partition, with a record in each line."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.manifest = directory, json.loads((directory / "manifest.json").read_bytes())
        if not self.manifest["complete"]:
            raise BrokenFile(f"{directory}: the export was interrupted")

    def topic(self, first: int) -> range:
        """Return the partitions of the votes' topic that begins with partition `first`."""
        topics = {"0": self.manifest["partitions"], **self.manifest["later"]}
        return range(first, first + topics[str(first)])

    def records(self, kind: str, partition: int) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the value of each record."""
        part = next(p for p in self.manifest["parts"] if (p["kind"], p["partition"]) == (kind, partition))
        content = (self.directory / part["file"]).read_bytes()
        if sha256(content).hex() != part["sha256"]:
            raise BrokenFile(f"{part['file']} was changed: its SHA-256 is not that of the manifest")
        for offset, line in enumerate(content.split(b"\n")[:-1], part["start"]):
            head, found, event = line.partition(b',"event":')
            members = json.loads(head + b"}" if found else head)
            if members["offset"] != offset:
                raise BrokenFile(f"{part['file']}: the record of offset {offset} is missing")
            yield offset, event.removesuffix(b"}") if found else base64.b64decode(members["value_base64"])


def decided(export: Export, given: Event) -> tuple[Event, Event]:
    """Return where the contest was closed, and its record there: as decided from its latest configuration."""
    account, contest, log_id, version = given["decision"]["account"], given["contest_key"], "", -1
    for offset, value in export.records("catalogue", crc32(account.encode()) % 4):
        event = json.loads(value)
        log_id = event["log_id"] if event["type"] == "LogCreated" else log_id
        if contest not in [written.get("contest") for written in event.get("writes", [event])]:
            continue
        if event["type"] == "ContestClosing" and (event["account"], event["expected_config"]) == (
            account,
            version,
        ):
            record = json.loads(event["record"])
            if record.get("closing", {}).get("seq") == given["seq"]:
                return {"account": account, "log_id": log_id, "offset": offset}, record
        version = offset
    raise BrokenFile(f"the export holds no closing {given['seq']} of contest {contest}")


def below(most: int, least: int = 0) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < most


def octets(length: int | None = None) -> Callable[[Any], bool]:
    def check(text: Any) -> bool:
        size = len(base64.urlsafe_b64decode(text + "===")) if ALPHABET.issuperset(text) else -1
        return size == len(text) * 3 // 4 and length in (None, size)

    return check


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_name(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


LIMIT, INTERNAL = below(2**31, -1), ("c-free", "c-paid")
VOTE = {"contest": is_name, "voter": octets(), "vote_id": is_text}
CAST = VOTE | {"anonymous": lambda v: isinstance(v, bool), "content": octets(8), "source": INTERNAL.__contains__}
FENCE = {"incarnation": below(WHOLE), "after?": or_none(below(WHOLE))}
MEMBERS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "LogCreated": {"log_id": is_text},
    "Fence": FENCE,
    "Fence.2": FENCE,
    "VoteCast": CAST | {"accepted_at": below(WHOLE), "incarnation": below(WHOLE), "epoch": below(2**28),
                        "max_participant": LIMIT, "max_contest": LIMIT, "remaining_participant": or_none(LIMIT),
                        "remaining_contest": or_none(LIMIT), "next_free_vote_at": or_none(below(WHOLE)),
                        "receipt": is_text, "config": below(2**63, -(2**63))},
    "VoteRemoved": CAST | {"incarnation": below(WHOLE), "removed_at": below(WHOLE)},
    "VoteVoided": VOTE | {"void": lambda v: isinstance(v, str) and v != ""},
    "VoteRestored": VOTE | {"void": lambda v: isinstance(v, str) and v != ""},
    "SourceReported": {"contest": is_name, "source": is_name, "report_id": is_name, "content": octets(8),
                       "mode": ("cumulative", "delta").__contains__,
                       "counts": lambda v: all(len(c) == 4 and c[0] and all(map(below(2**44), c[1:])) for c in v)},
    "ContestClosed": {"contest": is_name, "seq": below(WHOLE, 1), "source?": or_none(is_name)},
    "ContestReopened": {"contest": is_name, "seq": below(WHOLE, 1), "at_most?": or_none(below(WHOLE, 1))},
}  # fmt: skip
"""What each event must have to be folded; others are in the quarantine. A member with "?" may be absent."""


def decoded(value: bytes) -> Event | None:
    """Return an event of the votes log, None if it cannot be folded."""
    try:
        event: Event = json.loads(value)
        for name, check in MEMBERS[event["type"]].items():
            if not check(event.get(name[:-1]) if name.endswith("?") else event[name]):
                return None
        return event if event["type"] != "VoteCast" or has_form(event) else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def has_form(cast: Event) -> bool:
    """Return whether the choices and the rating of a vote are those of its form."""
    form, rating, choices = cast.get("form", "plain"), cast.get("rating"), cast["choices"]
    values = [] if rating is None else [rating["value"], *(value for _, value in rating.get("sub_ratings", []))]
    if not all(name and below(2**24, 1)(count) for name, count in choices) or not all(map(below(2**31), values)):
        return False
    if form == "ballot":
        return 0 < len(choices) == len({name for name, _ in choices}) and rating is None
    return len(choices) == 1 and (form == "plain" if rating is None else form == "rating" and choices[0][1] == 1)


class VoterVotes:
    """The votes of one voter by id. `slots` names the vote of a rating or ballot that the next one replaces."""

    def __init__(self, anonymous: bool) -> None:
        self.anonymous, self.epoch, self.latest = anonymous, 0, 0
        self.votes: dict[str, Event] = {}
        self.slots: dict[tuple[str | None, str], str] = {}

    def admits(self, cast: Event) -> bool:
        """Return whether a vote is within the largest limits that the votes of its allowance period carry."""
        if cast["source"] == "c-free" and cast["epoch"] < self.epoch - 1:
            return False
        same = [v for v in self.votes.values() if (v["source"], v["epoch"]) == (cast["source"], cast["epoch"])]
        used = [v for v in same if v["became"] in ("counted", "voided")]
        for name, count in cast["choices"]:
            its = [v for v in same if v["is_used"] and name in dict(v["choices"])]
            limits = [v["max_participant"] for v in [*its, cast]]
            if -1 not in limits and sum(dict(v["choices"]).get(name, 0) for v in used) + count > max(limits):
                return False
        limits = [v["max_contest"] for v in [*same, cast] if v is cast or (v["is_used"] and not v["replaces"])]
        return -1 in limits or sum(map(weight, [*used, cast])) <= max(limits)


def weight(cast: Event) -> int:
    return 1 if cast.get("form") == "ballot" else sum(count for _, count in cast["choices"])


class Fold:
    """The records of one contest in one partition, up to the close markers of its votes and of `sources`."""

    def __init__(self, contest: str, seq: int, sources: list[str]) -> None:
        self.contest, self.seq, self.sources = contest, seq, sources
        self.log_id, self.fence, self.closed, self.reopened = "", 0, 0, 0
        self.mark: int | None = None
        self.marks: dict[str, int] = {}
        self.voters: dict[str, VoterVotes] = {}
        self.waiting: list[Event] = []
        self.reports: dict[str, Event] = {}
        self.leaves: list[tuple[int, bytes, Event | None]] = []

    @property
    def is_complete(self) -> bool:
        return self.mark is not None and len(self.marks) == len(self.sources)

    @property
    def counted(self) -> Iterator[tuple[str, VoterVotes, Event]]:
        for name, voter in self.voters.items():
            yield from ((name, voter, vote) for vote in voter.votes.values() if vote["became"] == "counted")

    def take(self, offset: int, value: bytes) -> None:
        event = decoded(value)
        if event is None:
            return
        kind, vote, number = event["type"], None, event.get("incarnation", self.fence)
        if kind == "LogCreated" and offset == 0:
            self.log_id = event["log_id"]
        elif kind.startswith("Fence") and number > self.fence and event.get("after") in (None, self.fence):
            self.fence = number
        if event.get("contest") != self.contest:
            return
        if number == self.fence:
            vote = getattr(self, f"take_{kind}")(event)
        if kind == "ContestClosed":
            self.mark = offset if self.mark is None and self.closed == self.seq else self.mark
            for name in self.sources:
                if self.reports.get(name, {}).get("closed") == self.seq:
                    self.marks.setdefault(name, offset)
        source = event.get("source")
        if not (source in self.marks if source in self.sources else self.mark is not None):
            self.leaves.append((offset, sha256(value), vote))

    def take_VoteCast(self, cast: Event) -> Event | None:
        voter = self.voters.setdefault(cast["voter"], VoterVotes(cast["anonymous"]))
        if cast["vote_id"] in voter.votes:
            return None
        form, renews = cast.get("form", "plain"), cast["next_free_vote_at"] is not None
        if cast["source"] == "c-free" and (renews or voter.latest or cast["epoch"]):
            voter.latest, voter.epoch = max(voter.latest, cast["accepted_at"]), max(voter.epoch, cast["epoch"])
        slot = {"rating": cast["choices"][0][0], "ballot": ""}.get(form), cast["source"]
        replaces = form == "ballot" or cast["max_participant"] == 1
        former = (
            voter.votes.get(voter.slots[slot]) if replaces and slot in voter.slots and not self.closed else None
        )
        vote = {**cast, "became": "counted", "slot": slot, "is_used": True, "replaces": former is not None,
                "voids": [], "void": None}  # fmt: skip
        if former is not None:
            vote["epoch"], former["became"] = former["epoch"], "replaced"
        elif self.closed or not voter.admits(cast):
            vote["became"], vote["is_used"] = "late" if self.closed else "overruled", False
        voter.votes[cast["vote_id"]] = vote
        if vote["became"] == "counted" and slot[0] is not None:
            voter.slots[slot] = cast["vote_id"]
        return vote

    def take_VoteRemoved(self, event: Event) -> None:
        names = ("type", "voter", "vote_id")
        if self.closed:
            self.wait(event, names)
            return
        voter = self.voters.setdefault(event["voter"], VoterVotes(event["anonymous"]))
        vote = voter.votes.setdefault(event["vote_id"], {"became": "removed", "source": "", "epoch": -1})
        if vote["became"] in ("counted", "voided"):
            vote["became"] = "removed"
            if voter.slots.get(vote["slot"]) == event["vote_id"]:
                del voter.slots[vote["slot"]]

    def take_VoteVoided(self, event: Event) -> None:
        if self.closed:
            self.wait(event, ("type", "voter", "vote_id", "void"))
            return
        voter = self.voters.get(event["voter"])
        vote, by = voter.votes.get(event["vote_id"]) if voter else None, event["void"]
        if not vote or "voids" not in vote:
            return
        if event["type"] == "VoteVoided" and vote["became"] == "counted" and by not in vote["voids"]:
            vote["became"], vote["void"], vote["voids"] = "voided", by, [*vote["voids"], by]
        elif event["type"] == "VoteRestored" and (vote["became"], vote["void"]) == ("voided", by):
            vote["became"], vote["void"] = "counted", None

    take_VoteRestored = take_VoteVoided

    def wait(self, event: Event, names: tuple[str, ...]) -> None:
        """Keep a change after the close for a reopening, once."""
        if all(any(event[name] != other.get(name) for name in names) for other in self.waiting):
            self.waiting.append(event)

    def take_SourceReported(self, event: Event) -> None:
        source = self.source(event["source"])
        if event["report_id"] in source["ids"] or source["ids"].add(event["report_id"]) or source["closed"]:
            return
        figures, held = source["figures"], source["held"]
        if event["allow_decrease"]:
            figures.update(held)
            held.clear()
        for name, *numbers in event["counts"]:
            if event["mode"] == "delta":
                figures[name] = plus(figures.get(name, ZERO), numbers)
                held.update({name: plus(held[name], numbers)} if name in held else {})
            elif not event["allow_decrease"] and numbers[0] < figures.get(name, ZERO)[0]:
                held[name] = numbers
            else:
                figures[name] = numbers
                held.pop(name, None)

    def source(self, name: str) -> Event:
        return self.reports.setdefault(name, {"closed": 0, "ids": set(), "figures": {}, "held": {}})

    def take_ContestClosed(self, event: Event) -> None:
        if event["seq"] > self.reopened and event.get("source"):
            source = self.source(event["source"])
            source["closed"] = max(source["closed"], event["seq"])
        elif event["seq"] > max(self.reopened, abs(self.closed)):
            self.closed = event["seq"]

    def take_ContestReopened(self, event: Event) -> None:
        if event["seq"] <= self.reopened:
            return
        if abs(self.closed) <= event["seq"]:
            closed, self.closed = self.closed, 0
            now, self.waiting = self.waiting[: event.get("at_most")], self.waiting[event.get("at_most") or 2**63 :]
            for late in now:
                getattr(self, f"take_{late['type']}")(late)
            if self.waiting:
                self.closed = -abs(closed)
                return
        self.reopened = event["seq"]
        for source in self.reports.values():
            source["closed"] = source["closed"] if source["closed"] > event["seq"] else 0


def plus(*figures: list[int]) -> list[int]:
    return [sum(column) for column in zip(*figures, strict=True)]


def root_of(level: list[bytes]) -> bytes:
    """Return the root of the Merkle tree of RFC 6962."""
    while len(level) > 1:
        pairs = [sha256(b"\1" + left + right) for left, right in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0] if level else sha256(b"")


def leaf(offset: int, became: str, receipt: str, value: str) -> bytes:
    return sha256(b"\0" + f"{offset} {became} {receipt} {value}".encode())


def leaf_of(offset: int, value: bytes, vote: Event | None, approved: list[str]) -> bytes:
    if vote is None:
        return leaf(offset, "-", "-", value.hex())
    is_shown = vote["became"] != "counted" or any(name in approved for name, _ in vote["choices"])
    return leaf(offset, vote["became"] if is_shown else "unapproved", vote["receipt"], value.hex())


def votes(figures: list[int]) -> Event:
    return dict(zip(("count", "unique_voter_count", "anonymous_voter_count"), figures, strict=True))


def result(folds: list[Fold], record: Event, approved: list[str]) -> Event:
    """Return the result of the approved participants: votes and voters by source, and places."""
    cast = [(voter, who.anonymous, vote) for fold in folds for voter, who, vote in fold.counted]
    rated = record.get("contest_type") == "rating"

    def figures(names: list[str], source: str | None, voted_for: str | None) -> list[int]:
        """Return the votes for `names`, and the voters of `voted_for` (None: of anybody), from a source or all."""
        its = [(voter, anonymous, v) for voter, anonymous, v in cast if source in (None, v["source"])]
        count = sum(n for *_, v in its for name, n in v["choices"] if name in names)
        who = {(voter, a) for voter, a, v in its if voted_for is None or voted_for in dict(v["choices"])}
        return [count, len(who), sum(anonymous for _, anonymous in who)]

    def rating(names: list[str]) -> Event | None:
        given = [v["rating"] for *_, v in cast if v.get("rating") and v["choices"][0][0] in names]
        subs = sorted(tuple(sub) for one in given for sub in one.get("sub_ratings", []))
        each = {name: [value for other, value in subs if other == name] for name, _ in subs}
        items = [{"sub_rating_id": name, "count": len(v), "total": sum(v)} for name, v in each.items()]
        total = sum(one["value"] for one in given)
        return {"count": len(given), "total": total, "sub_ratings": items} if rated else None

    totals = {name: figures([name], None, name) for name in approved}
    total, listed = figures(approved, None, None), []
    of: dict[str, list[Event]] = {name: [] for name in approved}
    for source in INTERNAL:
        listed.append({"source": source, "is_in_total": True, **votes(figures(approved, source, None))})
        for name in approved:
            of[name].append({"source": source, "mapped_id": None, **votes(figures([name], source, name))})
    for source, its in sorted(record["closing"]["sources"].items()):
        reports = [f.reports[source]["figures"] for f in folds if source in f.sources and source in f.reports]
        reported, sums = reports[0] if reports else {}, ZERO
        if its["retired"] and not reported:
            continue
        for mapped, name in sorted(its["mapping"].items()):
            if name in approved:
                numbers = reported.get(mapped, ZERO)
                of[name].append({"source": source, "mapped_id": mapped, **votes(numbers)})
                sums, totals[name] = (
                    plus(sums, numbers),
                    plus(totals[name], numbers if its["is_in_total"] else ZERO),
                )
        listed.append({"source": source, "is_in_total": its["is_in_total"], **votes(sums)})
        total = plus(total, sums if its["is_in_total"] else ZERO)

    def place(name: str) -> tuple[int, int]:
        its = rating([name])
        mean = (2 * its["total"] + its["count"]) // (2 * its["count"]) if its and its["count"] else -int(rated)
        return mean, totals[name][0]

    places = sorted(map(place, approved), reverse=True)
    participants = [
        {"participant_key": name, "rank": 1 + places.index(place(name)), **votes(totals[name]),
         "sources": sorted(of[name], key=lambda s: (s["source"], s["mapped_id"] or "")), "rating": rating([name])}
        for name in sorted(approved)
    ]  # fmt: skip
    return {"contest_type": record.get("contest_type", "voteonly"), **votes(total), "participants": participants,
            "sources": sorted(listed, key=lambda s: str(s["source"])), "rating": rating(approved)}  # fmt: skip


def certificate_of(export: Export, given: Event) -> Event:
    """Return the certificate that the export gives for the contest and the closing of `given`."""
    where, record = decided(export, given)
    closing, topic = record["closing"], export.topic(record.get("votes_from", 0))
    at = {
        name: topic[crc32(f"{given['contest_key']}:{name}".encode()) % len(topic)] for name in closing["sources"]
    }
    approved = [key for key, status, _ in closing["participants"] if status == "approved"]
    folds, partitions = [], []
    for partition in topic:
        fold = Fold(given["contest_key"], given["seq"], sorted(name for name in at if at[name] == partition))
        for offset, value in export.records("votes", partition):
            fold.take(offset, value)
            if fold.is_complete:
                break
        else:
            raise BrokenFile(f"partition {partition} of the export ends before the close markers")
        leaves = [leaf_of(*its, approved) for its in fold.leaves]
        marks = [{"source": name, "mark": mark} for name, mark in sorted(fold.marks.items())]
        partitions.append({"partition": partition, "log_id": fold.log_id, "mark": fold.mark, "sources": marks,
                           "leaves": len(leaves), "root": root_of(leaves).hex()})  # fmt: skip
        folds.append(fold)
    names = ("participant_key", "status", "title")
    made = {
        "format": 1, "contest_key": given["contest_key"], "seq": given["seq"], "end": closing["end"],
        "title": closing["title"], "decision": where, "partitions": partitions,
        "participants": [dict(zip(names, its, strict=True)) for its in closing["participants"]],
        "sources": [{**its, "source": name, "mapping": sorted(map(list, its["mapping"].items()))}
                    for name, its in sorted(closing["sources"].items())],
        "result": result(folds, record, approved),
    }  # fmt: skip
    return {**made, "sha256": sha256(canonical(made)).hex()}


def differences(where: str, given: Any, found: Any) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(found, dict):
        for name in sorted(given.keys() | found.keys()):
            yield from differences(f"{where}/{name}", given.get(name), found.get(name))
    elif isinstance(given, list) and isinstance(found, list) and len(given) == len(found):
        for at, (one, other) in enumerate(zip(given, found, strict=True)):
            yield from differences(f"{where}/{at}", one, other)
    elif type(given) is not type(found) or given != found:
        yield f"{where}: the certificate says {json.dumps(given)}, the export {json.dumps(found)}"


def proof_problems(proof: Event, certificate: Event) -> Iterator[str]:
    """Yield why a proof does not show that its vote is in the certificate."""
    if [proof[n] for n in ("format", "contest_key", "seq", "certificate")] != [
        certificate[n] for n in ("format", "contest_key", "seq", "sha256")
    ]:
        yield "the proof is of another certificate"
    if proof["became"] == "-":
        yield "the record is not an accepted vote"
    sealed = next(its for its in certificate["partitions"] if its["partition"] == proof["partition"])
    node = leaf(proof["offset"], proof["became"], proof["receipt"], proof["value_sha256"])
    path, index, size = [bytes.fromhex(node) for node in proof["path"]], proof["index"], sealed["leaves"]
    fits = 0 <= index < size
    while size > 1:
        if index ^ 1 < size and path:
            sibling = path.pop(0)
            node = sha256(b"\1" + (sibling + node if index & 1 else node + sibling))
        index, size = index >> 1, (size + 1) >> 1
    if not fits or path or node.hex() != sealed["root"]:
        yield f"the path does not lead to the root of partition {proof['partition']}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Verify a certificate, and a proof, against an export of the log."
    )
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--export", type=Path, required=True, help="directory written by `tally export`")
    parser.add_argument("--proof", type=Path, help="file written by `tally certificate prove`")
    files = parser.parse_args()
    try:
        certificate = json.loads(files.certificate.read_bytes())
        found = list(differences("", certificate, certificate_of(Export(files.export), certificate)))
        if files.proof is not None:
            found += proof_problems(json.loads(files.proof.read_bytes()), certificate)
    except (BrokenFile, OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
        print(f"Not verified: {error if isinstance(error, BrokenFile | OSError) else repr(error)}")
        return 2
    print("\n".join(found) if found else f"The export gives this certificate: sha256 {certificate['sha256']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
