#!/usr/bin/env python3
"""Verifies a certificate, and a voter's proof, against an export of the log. Needs Python 3.10 and nothing else.

    python3 verifier.py CERTIFICATE --export DIRECTORY [--proof PROOF]

It shares no code with Tallykeeper. `deploy/guides/certificates.md` says what it computes, and has its words. Exit
codes: 0 everything matches, 1 it does not, 2 a file cannot be read.
"""

import argparse
import base64
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

Event = dict[str, Any]
Figures = list[int]
ZERO, INTERNAL = [0, 0, 0], ("c-free", "c-paid")
BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
TEXTS: dict[str, Callable[[str], bool]] = {
    "text": lambda _: True,
    "some": lambda text: text != "",
    "name": lambda text: text != "" and "\0" not in text,
    "base64": lambda text: len(text) % 4 != 1 and BASE64.issuperset(text),
    "hash": lambda text: len(text) == 11 and BASE64.issuperset(text),
}
VOTE = "contest:name voter:base64 vote_id:text"
CAST = f"{VOTE} anonymous:flag content:hash source:c-free|c-paid incarnation:0..53"
SHAPES = {
    "LogCreated": "log_id:text",
    "Fence": "incarnation:0..53 after?:0..53?",
    "Fence.2": "incarnation:0..53 after?:0..53?",
    "VoteCast": f"{CAST} accepted_at:0..53 epoch:0..28 max_participant:-1..31 max_contest:-1..31 receipt:text "
    "remaining_participant:-1..31? remaining_contest:-1..31? next_free_vote_at:0..53? "
    f"config:{-(2**63)}..63",
    "VoteRemoved": f"{CAST} removed_at:0..53",
    "VoteVoided": f"{VOTE} void:some",
    "VoteRestored": f"{VOTE} void:some",
    "SourceReported": "contest:name source:name report_id:name content:hash mode:cumulative|delta "
    "allow_decrease:flag",
    "ContestClosed": "contest:name seq:1..53 source?:name?",
    "ContestReopened": "contest:name seq:1..53 at_most?:1..53?",
}
"""What an event must have to be folded: `1..53` is a whole number from 1 to below 2**53; `name?` may be absent,
`kind?` null."""


class BrokenFile(Exception):
    """A file is missing, incomplete, or has another form."""


class Export:
    """A directory of `tally export`: a file for each partition, with a record in each line."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.manifest = directory, json.loads((directory / "manifest.json").read_bytes())
        if not self.manifest["complete"]:
            raise BrokenFile(f"{directory}: the export was interrupted")

    def topic(self, first: int) -> range:
        """Return the partitions of the votes' topic that begins with partition `first`."""
        return range(first, first + {"0": self.manifest["partitions"], **self.manifest["later"]}[str(first)])

    def records(self, kind: str, partition: int) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the value of each record."""
        parts = {(part["kind"], part["partition"]): part for part in self.manifest["parts"]}
        if (kind, partition) not in parts:
            raise BrokenFile(f"{self.directory}: its manifest names no {kind} of partition {partition}")
        part = parts[kind, partition]
        content = (self.directory / part["file"]).read_bytes()
        if sha256(content).hexdigest() != part["sha256"]:
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
        if [event["type"], event["account"], event.get("expected_config")] == ["ContestClosing", account, version]:
            record = json.loads(event["record"])
            if record.get("closing", {}).get("seq") == given["seq"]:
                return {"account": account, "log_id": log_id, "offset": offset}, record
        version = offset
    raise BrokenFile(f"the export holds no closing {given['seq']} of contest {contest}")


def fits(kind: str, value: Any) -> bool:
    """Return whether a value is of a kind as in `SHAPES`."""
    if kind.endswith("?"):
        return value is None or fits(kind[:-1], value)
    least, is_number, bits = kind.partition("..")
    if is_number:
        return type(value) is int and int(least) <= value < 2 ** int(bits)
    if kind == "flag" or not isinstance(value, str):
        return kind == "flag" and isinstance(value, bool)
    return TEXTS[kind](value) if kind in TEXTS else value in kind.split("|")


def decoded(value: bytes) -> Event | None:
    """Return an event of the votes log, None if it is not folded."""
    try:
        event: Event = json.loads(value)
        for name, kind in (member.split(":") for member in SHAPES[event["type"]].split()):
            if not fits(kind, event.get(name[:-1]) if name.endswith("?") else event[name]):
                return None
        if event["type"] == "SourceReported":
            figures = [fits("0..44", number) for name, *numbers in event["counts"] for number in numbers]
            return event if all(figures) and all(name and len(n) == 3 for name, *n in event["counts"]) else None
        return event if event["type"] != "VoteCast" or has_form(event) else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def has_form(cast: Event) -> bool:
    """Return whether the choices and the rating of a vote are those of its form."""
    form, rating, choices = cast.get("form", "plain"), cast.get("rating"), cast["choices"]
    values = [] if rating is None else [rating["value"], *(value for _, value in rating.get("sub_ratings", []))]
    if not all(name and fits("1..24", n) for name, n in choices) or not all(fits("0..31", v) for v in values):
        return False
    if form == "ballot":
        return 0 < len(choices) == len(dict(choices)) and rating is None
    return len(choices) == 1 and (form == "plain" if rating is None else form == "rating" and choices[0][1] == 1)


def weight(vote: Event, name: str | None) -> int:
    """Return the votes for a participant, or those that count against the limit of the contest: 1 of a ballot."""
    is_ballot = name is None and vote.get("form") == "ballot"
    return 1 if is_ballot else sum(count for choice, count in vote["choices"] if name in (None, choice))


def plus(*figures: Figures) -> Figures:
    return [sum(column) for column in zip(*figures, strict=True)]


class Fold:
    """The records of one contest in one partition, up to the close markers of its votes ("") and of `sources`."""

    def __init__(self, contest: str, seq: int, sources: list[str]) -> None:
        self.contest, self.seq, self.sources = contest, seq, sources
        self.log_id, self.fence, self.reopened, self.closed = "", 0, 0, {"": 0}
        self.marks: dict[str, int] = {}
        self.votes, self.figures, self.held = (defaultdict[str, dict[str, Any]](dict) for _ in range(3))
        self.anonymous: dict[str, bool] = {}
        self.epochs: dict[str, int] = defaultdict(int)
        self.slots: dict[tuple[str, ...], str] = {}
        self.waiting: dict[tuple[str, ...], Event] = {}
        self.reports: set[tuple[str, str]] = set()
        self.leaves: list[tuple[int, bytes, Event | None]] = []

    def take(self, offset: int, value: bytes) -> None:
        event = decoded(value)
        if event is None:
            return
        kind, vote, fence = event["type"], None, event.get("incarnation", self.fence)
        if kind == "LogCreated" and offset == 0:
            self.log_id = event["log_id"]
        elif kind.startswith("Fence") and fence > self.fence and event.get("after") in (None, self.fence):
            self.fence = fence
        if event.get("contest") != self.contest:
            return
        if fence == self.fence and self.closed[""] and kind in ("VoteRemoved", "VoteVoided", "VoteRestored"):
            void = "" if kind == "VoteRemoved" else event["void"]
            self.waiting.setdefault((kind, event["voter"], event["vote_id"], void), event)
        elif fence == self.fence:
            vote = getattr(self, f"take_{kind}")(event)
        for name in ["", *self.sources] if kind == "ContestClosed" else []:
            if self.closed.get(name) == self.seq:
                self.marks.setdefault(name, offset)
        source = event.get("source")
        if (source if source in self.sources else "") not in self.marks:
            self.leaves.append((offset, sha256(value).digest(), vote))

    def take_VoteCast(self, cast: Event) -> Event | None:
        voter, form, votes = cast["voter"], cast.get("form"), self.votes[cast["voter"]]
        self.anonymous.setdefault(voter, cast["anonymous"])
        if cast["vote_id"] in votes:
            return None
        if cast["source"] == "c-free":
            self.epochs[voter] = max(self.epochs[voter], cast["epoch"])
        slot = voter, cast["source"], "" if form == "ballot" else cast["choices"][0][0]
        is_of_slot = form == "ballot" or (form == "rating" and cast["max_participant"] == 1)
        former = votes.get(self.slots.get(slot, ""), {"became": "removed"})
        replaces = is_of_slot and not self.closed[""] and former["became"] != "removed"
        period = former["period"] if replaces else (cast["source"], cast["epoch"])
        vote = cast | {"became": "counted", "period": period, "replaces": replaces, "voids": []}
        votes[cast["vote_id"]] = vote
        if replaces:
            former["became"] = "replaced"
        elif self.closed[""] or not self.admits(vote):
            vote["became"] = "late" if self.closed[""] else "overruled"
        if vote["became"] == "counted" and form in ("ballot", "rating"):
            self.slots[slot] = cast["vote_id"]
        return vote

    def admits(self, vote: Event) -> bool:
        """Return whether a vote is within the largest limits that the votes of its allowance period carry."""
        period = [v for v in self.votes[vote["voter"]].values() if v["period"] == vote["period"]]
        period = [v for v in period if v["became"] not in ("late", "overruled")]
        for name in [None, *dict(vote["choices"])]:
            limits = [v["max_participant"] for v in period if weight(v, name)]
            if name is None:
                limits = [v["max_contest"] for v in period if not v["replaces"]]
            used = sum(weight(v, name) for v in period if v["became"] in ("counted", "voided"))
            if -1 not in limits and used > max(limits):
                return False
        is_over: bool = vote["source"] == "c-free" and vote["epoch"] < self.epochs[vote["voter"]] - 1
        return not is_over

    def take_VoteRemoved(self, event: Event) -> None:
        self.anonymous.setdefault(event["voter"], event["anonymous"])
        vote = self.votes[event["voter"]].setdefault(event["vote_id"], {"became": "removed", "period": None})
        vote["became"] = "removed" if vote["became"] in ("counted", "voided") else vote["became"]

    def take_VoteVoided(self, event: Event) -> None:
        vote = self.votes[event["voter"]].get(event["vote_id"], {"became": "removed"})
        change, void = (event["type"], vote["became"]), event["void"]
        if change == ("VoteVoided", "counted") and void not in vote["voids"]:
            vote["became"], vote["voids"] = "voided", [*vote["voids"], void]
        elif change == ("VoteRestored", "voided") and vote["voids"][-1] == void:
            vote["became"] = "counted"

    take_VoteRestored = take_VoteVoided

    def take_SourceReported(self, event: Event) -> None:
        source, report = event["source"], (event["source"], event["report_id"])
        figures, held, is_known = self.figures[source], self.held[source], report in self.reports
        self.reports.add(report)
        if is_known or self.closed.get(source):
            return
        if event["allow_decrease"]:
            figures |= held
            held.clear()
        for name, *numbers in event["counts"]:
            before = figures.get(name, ZERO)
            if event["mode"] == "delta":
                figures[name] = plus(before, numbers)
                held |= {name: plus(held[name], numbers)} if name in held else {}
            elif numbers[0] < before[0] and not event["allow_decrease"]:
                held[name] = numbers
            else:
                figures[name] = numbers
                held.pop(name, None)

    def take_ContestClosed(self, event: Event) -> None:
        name = event.get("source") or ""
        if event["seq"] > max(self.reopened, abs(self.closed.get(name, 0))):
            self.closed[name] = event["seq"]

    def take_ContestReopened(self, event: Event) -> None:
        if event["seq"] <= self.reopened:
            return
        if abs(self.closed[""]) <= event["seq"]:
            for name in list(self.waiting)[: event.get("at_most")]:
                late = self.waiting.pop(name)
                getattr(self, f"take_{late['type']}")(late)
            if self.waiting:  # for the next record
                self.closed[""] = -abs(self.closed[""])
                return
        self.reopened = event["seq"]
        self.closed = {name: seq if abs(seq) > event["seq"] else 0 for name, seq in self.closed.items()}


def root_of(level: list[bytes]) -> bytes:
    """Return the root of the Merkle tree of RFC 6962."""
    while len(level) > 1:
        pairs = [sha256(b"\1" + one + other).digest() for one, other in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0] if level else sha256(b"").digest()


def leaf(offset: int, became: str, receipt: str, value: str) -> bytes:
    return sha256(b"\0" + f"{offset} {became} {receipt} {value}".encode()).digest()


def outcome(vote: Event | None, approved: list[str]) -> tuple[str, str]:
    """Return what a leaf says of a record: the outcome and the receipt of a vote."""
    if vote is None:
        return "-", "-"
    is_shown = vote["became"] != "counted" or any(name in approved for name, _ in vote["choices"])
    return vote["became"] if is_shown else "unapproved", vote["receipt"]


def result(folds: list[Fold], record: Event, approved: list[str]) -> Event:
    """Return the result of the approved participants: votes and voters by source, and places."""
    all_votes = [(fold.anonymous, vote) for fold in folds for its in fold.votes.values() for vote in its.values()]
    counted = [(v["voter"], anonymous[v["voter"]], v) for anonymous, v in all_votes if v["became"] == "counted"]
    kind = record.get("contest_type", "voteonly")

    def votes(figures: Figures) -> Event:
        return dict(zip(("count", "unique_voter_count", "anonymous_voter_count"), figures, strict=True))

    def cast(names: list[str], source: str | None = None, voted_for: str | None = None) -> Figures:
        """Return the votes for `names`, and the voters of `voted_for` (None: of anybody), from a source or all."""
        its = [each for each in counted if source in (None, each[2]["source"])]
        voters = {(voter, anonymous) for voter, anonymous, v in its if weight(v, voted_for)}
        count = sum(weight(v, name) for *_, v in its for name in names)
        return [count, len(voters), sum(anonymous for _, anonymous in voters)]

    def rating(names: list[str]) -> Event | None:
        given = [v["rating"] for *_, v in counted if v.get("rating") and v["choices"][0][0] in names]
        subs = sorted(tuple(sub) for one in given for sub in one.get("sub_ratings", []))
        each = {name: [value for other, value in subs if other == name] for name, _ in subs}
        items = [{"sub_rating_id": name, "count": len(its), "total": sum(its)} for name, its in each.items()]
        total = sum(one["value"] for one in given)
        return {"count": len(given), "total": total, "sub_ratings": items} if kind == "rating" else None

    def place(name: str) -> tuple[int, int]:
        its = rating([name]) or {"count": 0}
        mean = (2 * its["total"] + its["count"]) // (2 * its["count"]) if its["count"] else -int(kind == "rating")
        return mean, totals[name][0]

    sources = [{"source": s, "is_in_total": True, **votes(cast(approved, s))} for s in INTERNAL]
    cells: list[tuple[str, str, str | None, Figures]] = [
        (name, s, None, cast([name], s, name)) for name in approved for s in INTERNAL
    ]
    whole, totals = cast(approved), {name: cast([name], None, name) for name in approved}
    for source, its in sorted(record["closing"]["sources"].items()):
        reported = {m: numbers for f in folds if source in f.sources for m, numbers in f.figures[source].items()}
        if its["retired"] and not reported:
            continue
        mapping = [(name, mapped) for mapped, name in sorted(its["mapping"].items()) if name in approved]
        added = [(name, source, mapped, reported.get(mapped, ZERO)) for name, mapped in mapping]
        for name, _, _, numbers in added if its["is_in_total"] else []:
            whole, totals[name] = plus(whole, numbers), plus(totals[name], numbers)
        sums = plus(ZERO, *(numbers for *_, numbers in added))
        sources.append({"source": source, "is_in_total": its["is_in_total"], **votes(sums)})
        cells += added
    places, participants = {name: place(name) for name in approved}, []
    for name in sorted(approved):
        of = [{"source": s, "mapped_id": mapped, **votes(n)} for other, s, mapped, n in cells if other == name]
        rank = 1 + sum(other > places[name] for other in places.values())
        one = {"participant_key": name, "rank": rank, **votes(totals[name]), "rating": rating([name])}
        participants.append({**one, "sources": sorted(of, key=itemgetter("source"))})
    head = {"contest_type": kind, **votes(whole), "rating": rating(approved), "participants": participants}
    return {**head, "sources": sorted(sources, key=itemgetter("source"))}


def certificate_of(export: Export, given: Event) -> Event:
    """Return the certificate that the export gives for the contest and the closing of `given`."""
    contest, seq, (where, record) = given["contest_key"], given["seq"], decided(export, given)
    closing, topic = record["closing"], export.topic(record.get("votes_from", 0))
    at = {name: topic[crc32(f"{contest}:{name}".encode()) % len(topic)] for name in sorted(closing["sources"])}
    approved = [key for key, status, _ in closing["participants"] if status == "approved"]
    folds, partitions = [], []
    for partition in topic:
        fold = Fold(contest, seq, [name for name in at if at[name] == partition])
        for offset, value in export.records("votes", partition):
            fold.take(offset, value)
            if len(fold.marks) == 1 + len(fold.sources):
                break
        else:
            raise BrokenFile(f"partition {partition} of the export ends before the close markers")
        leaves = [leaf(offset, *outcome(vote, approved), value.hex()) for offset, value, vote in fold.leaves]
        marks = [{"source": name, "mark": fold.marks[name]} for name in fold.sources]
        tree = {"mark": fold.marks[""], "sources": marks, "leaves": len(leaves), "root": root_of(leaves).hex()}
        partitions.append({"partition": partition, "log_id": fold.log_id, **tree})
        folds.append(fold)
    names = ("participant_key", "status", "title")
    made = {
        **{"format": 1, "contest_key": contest, "seq": seq, "end": closing["end"], "title": closing["title"]},
        "decision": where,
        "partitions": partitions,
        "participants": [dict(zip(names, its, strict=True)) for its in closing["participants"]],
        "sources": [
            {**its, "source": name, "mapping": sorted(map(list, its["mapping"].items()))}
            for name, its in sorted(closing["sources"].items())
        ],
        "result": result(folds, record, approved),
    }
    canonical = json.dumps(made, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**made, "sha256": sha256(canonical.encode()).hexdigest()}


def differences(where: str, given: Any, found: Any) -> Iterator[str]:
    one, other = (dict(enumerate(each)) if isinstance(each, list) else each for each in (given, found))
    if type(given) is type(found) and isinstance(one, dict) and one.keys() == other.keys():
        for name in one:
            yield from differences(f"{where}/{name}", one[name], other[name])
    elif type(given) is not type(found) or given != found:
        yield f"{where}: the certificate says {json.dumps(given)}, the export {json.dumps(found)}"


def proof_problems(proof: Event, certificate: Event) -> Iterator[str]:
    """Yield why a proof does not show that its vote is in the certificate."""
    of = {**certificate, "certificate": certificate["sha256"]}
    if any(proof[name] != of[name] for name in ("format", "contest_key", "seq", "certificate")):
        yield "the proof is of another certificate"
    if proof["became"] == "-":
        yield "the record is not an accepted vote"
    sealed = {its["partition"]: its for its in certificate["partitions"]}.get(proof["partition"])
    if sealed is None:
        yield f"the certificate has no partition {proof['partition']}"
        return
    node = leaf(proof["offset"], proof["became"], proof["receipt"], proof["value_sha256"])
    path, index, size = [bytes.fromhex(node) for node in proof["path"]], proof["index"], sealed["leaves"]
    is_leaf = 0 <= index < size
    while size > 1:
        if index ^ 1 < size and path:
            sibling = path.pop(0)
            node = sha256(b"\1" + (sibling + node if index & 1 else node + sibling)).digest()
        index, size = index >> 1, (size + 1) >> 1
    if not is_leaf or path or node.hex() != sealed["root"]:
        yield f"the path does not lead to the root of partition {proof['partition']}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify a certificate, and a proof, against an export.")
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--export", type=Path, required=True, help="directory written by `tally export`")
    parser.add_argument("--proof", type=Path, help="file written by `tally certificate prove`")
    files = parser.parse_args()
    try:
        certificate = json.loads(files.certificate.read_bytes())
        found = list(differences("", certificate, certificate_of(Export(files.export), certificate)))
        if files.proof is not None:
            found += proof_problems(json.loads(files.proof.read_bytes()), certificate)
    except (BrokenFile, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        print(f"Not verified: {error if isinstance(error, BrokenFile | OSError) else repr(error)}")
        return 2
    print("\n".join(found) if found else f"The export gives this certificate: sha256 {certificate['sha256']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
