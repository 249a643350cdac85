#!/usr/bin/env python3
"""Verifies a certificate, and a voter's proof, against an export of the log. Needs Python 3.10 and nothing else.

    python3 verifier.py CERTIFICATE --export DIRECTORY [--proof PROOF]

It shares no code with Tallykeeper. `deploy/guides/certificates.md` says what it computes, and has its words. Exit
codes: 0 everything matches, 1 it does not, 2 a file cannot be read.
"""

import argparse
import base64
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import sha256
from itertools import islice
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

Event = dict[str, Any]
Figures = list[int]
ZERO, INTERNAL = [0, 0, 0], ("c-free", "c-paid")
DEEPEST = 201
"""Objects and arrays within each other that a record may have."""
BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
TEXTS: dict[str, Callable[[str], bool]] = {
    "text": lambda _: True,
    "some": lambda text: text != "",
    "name": lambda text: text != "" and "\0" not in text,
    "base64": lambda text: len(text) % 4 != 1 and BASE64.issuperset(text),
    "hash": lambda text: len(text) == 11 and BASE64.issuperset(text),
    "account": lambda text: re.fullmatch("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text) is not None,
    "key": lambda text: re.fullmatch("[A-Za-z0-9_.~-]{1,130}", text) is not None,
    "command": lambda text: re.fullmatch("[A-Za-z0-9_.-]{1,64}", text) is not None,
    "resource": lambda text: re.fullmatch("[a-z][a-z_/]{0,63}", text) is not None,
    "refkey": lambda text: re.fullmatch("[^\0]{1,400}", text) is not None,
}
"""Kinds of text."""
PARTS = {
    "choice": "some,1..24",
    "sub": "text,0..31",
    "place": "text,text",
    "lost": "text,int",
    "figures": "some,0..44,0..44,0..44",
    "ref": "resource,refkey",
}
"""Kinds of arrays with these items."""
WRITE = (
    "resource:resource key:key record:text parent?:ref? contest?:key? refs?:ref* offers?:ref* due?:int? "
    "sort_key?:text"
)
COMMAND = "account:account command_id:command at:int content?:text actor?:actor?"
VOTE = "contest:name voter:base64 vote_id:text"
CAST = f"{VOTE} anonymous:flag content:hash source:c-free|c-paid incarnation:0..53 address?:text?"
SHAPES = {
    "LogCreated": "log_id:text store_id?:text? partitions?:int?",
    "LogLost": "first:int end:int noticed_at:int votes?:lost* unnamed?:int",
    "Fence": "incarnation:0..53 after?:0..53? run?:text?",
    "Fence.2": "incarnation:0..53 after?:0..53? run?:text?",
    "VoteCast": f"{CAST} choices:choice* accepted_at:0..53 epoch:0..28 max_participant:-1..31 max_contest:-1..31 "
    "receipt:text remaining_participant:-1..31? remaining_contest:-1..31? next_free_vote_at:0..53? config:int "
    "form?:plain|rating|ballot rating?:rating? positions?:place*? platform?:ios|android|web?",
    "VoteRemoved": f"{CAST} removed_at:0..53 reason?:voter|refund participants?:text* actor?:actor?",
    "VoteVoided": f"{VOTE} void:some voided_at:int reason?:text",
    "VoteRestored": f"{VOTE} void:some restored_at:int",
    "SourceReported": "contest:name source:name report_id:name content:hash mode:cumulative|delta "
    "allow_decrease:flag reported_at:int? counts:figures* actor?:actor?",
    "ContestClosed": "contest:name seq:1..53 source?:name?",
    "ContestReopened": "contest:name seq:1..53 at_most?:1..53?",
}
"""What an event must have to be folded: `1..53` is a whole number from 1 to below 2**53, `int` any; `name?` may be
absent, `kind?` null; `kind*` is an array of it."""
CATALOGUE_SHAPES = {
    "LogCreated": SHAPES["LogCreated"],
    "RecordCreated": f"{COMMAND} {WRITE}",
    "RecordChanged": f"{COMMAND} {WRITE} expected_version:int",
    "RecordsWritten": f"{COMMAND} writes:write*",
    "RecordDeleted": f"{COMMAND} resource:resource key:key expected_version?:int? expected_parent?:int? "
    "contest?:key?",
    "ContestClosing": f"{COMMAND} contest:key record:text expected_config:int",
    "ContestRestored": f"{COMMAND} contest:key due?:int?",
}
"""The same for the catalogue's events that can be about a contest."""
OBJECTS = {
    "actor": "kind:text name:text origin?:text",
    "rating": "value:0..31 sub_ratings?:sub*",
    "write": f"{WRITE} expected_version?:int?",
}
"""Kinds of objects."""


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
        digest = sha256()
        with (self.directory / part["file"]).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
            if digest.hexdigest() != part["sha256"]:
                raise BrokenFile(f"{part['file']} was changed: its SHA-256 is not that of the manifest")
            file.seek(0)
            for offset, line in enumerate(file, part["start"]):
                head, found, event = line.partition(b',"event":')
                members = json.loads(head + b"}" if found else head)
                if members["offset"] != offset:
                    raise BrokenFile(f"{part['file']}: the record of offset {offset} is missing")
                yield offset, event.removesuffix(b"}\n") if found else base64.b64decode(members["value_base64"])


def decided(export: Export, given: Event) -> tuple[Event, Event]:
    """Return where the contest was closed, and its record there: as decided from its latest configuration."""
    account, contest, log_id, version = given["decision"]["account"], given["contest_key"], "", -1
    for offset, value in export.records("catalogue", crc32(account.encode()) % 4):
        event = decoded(value, CATALOGUE_SHAPES)
        if event is None:
            continue
        log_id = event["log_id"] if event["type"] == "LogCreated" and offset == 0 else log_id
        if contest not in [written.get("contest") for written in event.get("writes", [event])]:
            continue
        if [event["type"], event["account"], event.get("expected_config")] == ["ContestClosing", account, version]:
            record = json.loads(event["record"])
            if (record.get("closing") or {}).get("seq") == given["seq"]:
                return {"account": account, "log_id": log_id, "offset": offset}, record
        version = offset
    raise BrokenFile(f"the export holds no closing {given['seq']} of contest {contest}")


@cache
def kind_of(kind: str) -> Callable[[Any], bool]:
    """Return the check of a kind as in `SHAPES`."""
    if kind[-1] in "?*":
        inner = kind_of(kind[:-1])
        if kind[-1] == "?":
            return lambda value: value is None or inner(value)
        return lambda value: isinstance(value, list) and all(map(inner, value))
    if kind in OBJECTS:
        return shape_of(OBJECTS[kind])
    if kind in PARTS:
        kinds = [kind_of(part) for part in PARTS[kind].split(",")]
        return lambda value: (
            isinstance(value, list)
            and len(value) == len(kinds)
            and all(check(part) for check, part in zip(kinds, value, strict=True))
        )
    if kind in TEXTS:
        fits = TEXTS[kind]
        return lambda value: isinstance(value, str) and fits(value)
    if kind in ("flag", "int"):
        wanted = bool if kind == "flag" else int
        return lambda value: type(value) is wanted
    if ".." in kind:
        least, bits = map(int, kind.split(".."))
        return lambda value: type(value) is int and least <= value < 1 << bits
    names = kind.split("|")
    return lambda value: isinstance(value, str) and value in names


@cache
def shape_of(members: str) -> Callable[[Any], bool]:
    """Return the check of an object with these members; others may be there."""
    split = [member.split(":") for member in members.split()]
    checks = [(name.removesuffix("?"), name.endswith("?"), kind_of(kind)) for name, kind in split]
    return lambda value: (
        isinstance(value, dict)
        and all(check(value[name]) if name in value else may_be_absent for name, may_be_absent, check in checks)
    )


def decoded(value: bytes, shapes: dict[str, str]) -> Event | None:
    """Return an event, None if it is not folded: it is no JSON, nested too deeply, or has another shape."""
    try:
        event: Event = json.loads(value.decode())
        if b"\\u" in value:
            json.dumps(event, ensure_ascii=False).encode()  # fails for half a character
        if value.count(b"[") + value.count(b"{") > DEEPEST and depth_of(event) > DEEPEST:
            return None
        members = shapes[event["type"]]
        if not shape_of(members)(event) or (event["type"] == "VoteCast" and not has_form(event)):
            return None
        return {name: event[name] for name in names_of(members) if name in event}
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


@cache
def names_of(members: str) -> list[str]:
    return ["type", *(member.partition(":")[0].removesuffix("?") for member in members.split())]


def depth_of(value: Any) -> int:
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return depth


def has_form(cast: Event) -> bool:
    """Return whether the choices and the rating of a vote are those of its form."""
    form, rating, choices = cast.get("form", "plain"), cast.get("rating"), cast["choices"]
    if form == "ballot":
        return 0 < len(choices) == len(dict(choices)) and rating is None
    return len(choices) == 1 and (form == "plain" if rating is None else form == "rating" and choices[0][1] == 1)


def plus(*figures: Figures) -> Figures:
    return [sum(column) for column in zip(*figures, strict=True)]


class Vote:
    """The members of a vote that are needed after it was cast, and what it `became`. A removal before its vote
    leaves a removed one.
    """

    __slots__ = ("became", "choices", "period", "rating", "receipt", "source", "voids", "weight")

    def __init__(self, event: Event) -> None:
        self.choices = [(sys.intern(name), count) for name, count in event.get("choices", [])]
        self.weight = 1 if event.get("form") == "ballot" else sum(count for _, count in self.choices)
        self.source, self.period = sys.intern(event["source"]), (event["source"], event.get("epoch", 0))
        self.rating, self.receipt = event.get("rating"), event.get("receipt", "")
        self.became, self.voids = "removed", list[str]()


class Voter:
    """The votes of a voter, and of each allowance period the votes used for a participant, or in the contest
    (None), with the largest limit that they carry.
    """

    __slots__ = ("anonymous", "epoch", "periods", "slots", "votes")

    def __init__(self, anonymous: bool) -> None:
        self.anonymous, self.epoch = anonymous, 0
        self.votes: dict[str, Vote] = {}
        self.slots: dict[tuple[str, str], Vote] = {}
        self.periods: dict[tuple[str, int], dict[str | None, list[float]]] = {}

    def use(self, vote: Vote, sign: int) -> dict[str | None, list[float]]:
        """Add a vote to what is used of its period, or take it away; return that."""
        period = self.periods.setdefault(vote.period, {})
        for name, count in [(None, vote.weight), *vote.choices]:
            period.setdefault(name, [0, 0])[0] += sign * count
        return period

    def admits(self, vote: Vote, limits: dict[str | None, float]) -> bool:
        """Use a vote's allowance if that is within the largest limits that the votes of its period carry."""
        period = self.use(vote, 1)
        most = {name: max(period[name][1], limit) for name, limit in limits.items()}
        is_over = vote.source == "c-free" and vote.period[1] < self.epoch - 1
        if is_over or any(period[name][0] > limit for name, limit in most.items()):
            self.use(vote, -1)
            return False
        for name, limit in most.items():
            period[name][1] = limit
        return True


class Fold:
    """The records of one contest in one partition, up to the close markers of its votes ("") and of `sources`."""

    def __init__(self, contest: str, seq: int, sources: list[str]) -> None:
        self.contest, self.seq, self.sources = contest, seq, sources
        self.log_id, self.fence, self.reopened, self.closed = "", 0, 0, {"": 0}
        self.marks: dict[str, int] = {}
        self.figures, self.held = (defaultdict[str, dict[str, Figures]](dict) for _ in range(2))
        self.voters: dict[str, Voter] = {}
        self.waiting: dict[tuple[str, ...], Event] = {}
        self.reports: set[tuple[str, str]] = set()
        self.leaves: list[tuple[int, bytes, Vote | None]] = []
        self.lost: dict[tuple[int, int, int], int] = {}

    def take(self, offset: int, value: bytes) -> None:
        event = decoded(value, SHAPES)
        if event is None:
            return
        kind, vote, fence = event["type"], None, event.get("incarnation", self.fence)
        if kind == "LogCreated" and offset == 0:
            self.log_id = event["log_id"]
        elif kind == "LogLost":
            loss = event["first"], event["end"], event["noticed_at"]
            self.lost[loss] = dict(event.get("votes", [])).get(self.contest, 0)
        elif kind.startswith("Fence") and fence > self.fence and event.get("after") in (None, self.fence):
            self.fence = fence
        if event.get("contest") != self.contest:
            return
        if fence >= self.fence and self.closed[""] and kind in ("VoteRemoved", "VoteVoided", "VoteRestored"):
            void = "" if kind == "VoteRemoved" else event["void"]
            self.waiting.setdefault((kind, event["voter"], event["vote_id"], void), event)
        elif fence >= self.fence:
            vote = getattr(self, f"take_{kind}")(event)
        for name in ["", *self.sources] if kind == "ContestClosed" else []:
            if self.closed.get(name) == self.seq:
                self.marks.setdefault(name, offset)
        source = event.get("source")
        if (source if source in self.sources else "") not in self.marks:
            self.leaves.append((offset, sha256(value).digest(), vote))

    def take_VoteCast(self, cast: Event) -> Vote | None:
        voter, form = self.voters.setdefault(cast["voter"], Voter(cast["anonymous"])), cast.get("form")
        if cast["vote_id"] in voter.votes:
            return None
        if cast["source"] == "c-free":
            voter.epoch = max(voter.epoch, cast["epoch"])
        vote = voter.votes[cast["vote_id"]] = Vote(cast)
        slot = vote.source, "" if form == "ballot" else vote.choices[0][0]
        is_of_slot = form == "ballot" or (form == "rating" and cast["max_participant"] == 1)
        former = voter.slots.get(slot) if is_of_slot else None
        of_participant, of_contest = (
            inf if cast[it] == -1 else cast[it] for it in ("max_participant", "max_contest")
        )
        limits: dict[str | None, float] = {name: of_participant for name, _ in vote.choices}
        if self.closed[""]:
            vote.became = "late"
        elif former is not None and former.became != "removed":
            voter.use(former, -1)
            former.became, vote.became, vote.period = "replaced", "counted", former.period
            period = voter.use(vote, 1)
            for name, limit in limits.items():
                period[name][1] = max(period[name][1], limit)
        else:
            vote.became = "counted" if voter.admits(vote, {None: of_contest, **limits}) else "overruled"
        if vote.became == "counted" and form in ("ballot", "rating"):
            voter.slots[slot] = vote
        return vote

    def take_VoteRemoved(self, event: Event) -> None:
        voter = self.voters.setdefault(event["voter"], Voter(event["anonymous"]))
        vote = voter.votes.setdefault(event["vote_id"], Vote(event))
        if vote.became in ("counted", "voided"):
            voter.use(vote, -1)
            vote.became = "removed"

    def take_VoteVoided(self, event: Event) -> None:
        voter = self.voters.get(event["voter"])
        vote = None if voter is None else voter.votes.get(event["vote_id"])
        if vote is None:
            return
        change, void = (event["type"], vote.became), event["void"]
        if change == ("VoteVoided", "counted") and void not in vote.voids:
            vote.became, vote.voids = "voided", [*vote.voids, void]
        elif change == ("VoteRestored", "voided") and vote.voids[-1] == void:
            vote.became = "counted"

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
            for name in list(islice(self.waiting, event.get("at_most"))):
                late = self.waiting.pop(name)
                getattr(self, f"take_{late['type']}")(late)
            if self.waiting:  # for the next record
                self.closed[""] = -abs(self.closed[""])
                return
        self.reopened = event["seq"]
        self.closed = {name: seq if abs(seq) > event["seq"] else 0 for name, seq in self.closed.items()}


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root of the Merkle tree of RFC 6962."""
    whole: list[tuple[int, bytes]] = []  # trees with ever fewer leaves, and their roots
    for each in leaves:
        size, node = 1, each
        while whole and whole[-1][0] == size:
            size, node = 2 * size, sha256(b"\1" + whole.pop()[1] + node).digest()
        whole.append((size, node))
    root = whole.pop()[1] if whole else sha256(b"").digest()
    while whole:
        root = sha256(b"\1" + whole.pop()[1] + root).digest()
    return root


def leaf(offset: int, became: str, receipt: str, value: str) -> bytes:
    return sha256(b"\0" + f"{offset} {became} {receipt} {value}".encode()).digest()


def outcome(vote: Vote | None, approved: list[str]) -> tuple[str, str]:
    """Return what a leaf says of a record: the outcome and the receipt of a vote."""
    if vote is None:
        return "-", "-"
    is_shown = vote.became != "counted" or any(name in approved for name, _ in vote.choices)
    return vote.became if is_shown else "unapproved", vote.receipt


class Ratings:
    """Number and sum of ratings, and of their sub-ratings by name."""

    def __init__(self) -> None:
        self.count, self.total, self.subs = 0, 0, defaultdict[str, list[int]](lambda: [0, 0])

    def add(self, count: int, total: int, subs: Iterable[tuple[str, Figures]]) -> None:
        self.count, self.total = self.count + count, self.total + total
        for name, figures in subs:
            self.subs[name] = plus(self.subs[name], figures)

    def shown(self) -> Event:
        subs = [
            {"sub_rating_id": name, "count": n, "total": sum_} for name, (n, sum_) in sorted(self.subs.items())
        ]
        return {"count": self.count, "total": self.total, "sub_ratings": subs}


class Sums:
    """The counted votes: figures by participant and source, None for all of them, ratings by participant, and what
    the external sources reported.
    """

    def __init__(self) -> None:
        self.figures: dict[tuple[str | None, str | None], Figures] = defaultdict(lambda: [0, 0, 0])
        self.ratings: dict[str, Ratings] = defaultdict(Ratings)
        self.reported: dict[str, dict[str, Figures]] = {}

    def add(self, fold: Fold) -> None:
        self.reported |= {source: fold.figures[source] for source in fold.sources}
        for voter in fold.voters.values():
            voted_for: set[tuple[str | None, str | None]] = set()
            for vote in voter.votes.values():
                if vote.became != "counted":
                    continue
                voted_for |= {(None, None), (None, vote.source)}
                for name, count in vote.choices:
                    self.figures[name, None][0] += count
                    self.figures[name, vote.source][0] += count
                    voted_for |= {(name, None), (name, vote.source)}
                if vote.rating is not None:
                    subs = {name: [1, value] for name, value in vote.rating.get("sub_ratings", [])}
                    self.ratings[vote.choices[0][0]].add(1, vote.rating["value"], subs.items())
            for key in voted_for:
                self.figures[key] = plus(self.figures[key], [0, 1, int(voter.anonymous)])


def result(sums: Sums, record: Event, approved: list[str]) -> Event:
    """Return the result of the approved participants: votes and voters by source, and places."""
    kind, nobody = record.get("contest_type", "voteonly"), Ratings()

    def votes(figures: Figures) -> Event:
        return dict(zip(("count", "unique_voter_count", "anonymous_voter_count"), figures, strict=True))

    def cast(name: str | None, source: str | None) -> Figures:
        return sums.figures.get((name, source), ZERO)

    def contest(source: str | None) -> Figures:
        """Return the votes for the approved, and the voters of anybody, from a source or all."""
        return [sum(cast(name, source)[0] for name in approved), *cast(None, source)[1:]]

    def rating(name: str) -> Ratings:
        return sums.ratings.get(name, nobody)

    def place(name: str) -> tuple[int, int]:
        its = rating(name) if kind == "rating" else nobody
        mean = (2 * its.total + its.count) // (2 * its.count) if its.count else -int(kind == "rating")
        return mean, totals[name][0]

    sources = [{"source": s, "is_in_total": True, **votes(contest(s))} for s in INTERNAL]
    cells = {name: [(s, None, cast(name, s)) for s in INTERNAL] for name in approved}
    whole, totals = contest(None), {name: cast(name, None) for name in approved}
    for source, its in sorted(record["closing"]["sources"].items()):
        reported = sums.reported.get(source, {})
        if its["retired"] and not reported:
            continue
        added = [
            (name, mapped, reported.get(mapped, ZERO))
            for mapped, name in sorted(its["mapping"].items())
            if name in cells
        ]
        for name, _, numbers in added if its["is_in_total"] else []:
            whole, totals[name] = plus(whole, numbers), plus(totals[name], numbers)
        of_source = plus(ZERO, *(numbers for *_, numbers in added))
        sources.append({"source": source, "is_in_total": its["is_in_total"], **votes(of_source)})
        for name, mapped, numbers in added:
            cells[name].append((source, mapped, numbers))
    places, participants, overall = {name: place(name) for name in approved}, [], Ratings()
    order = sorted(places.values(), reverse=True)
    ranks = {one: rank for rank, one in reversed([*enumerate(order, 1)])}
    for name in sorted(approved):
        of = [{"source": s, "mapped_id": mapped, **votes(numbers)} for s, mapped, numbers in cells[name]]
        own = rating(name)
        overall.add(own.count, own.total, own.subs.items())
        one = {"participant_key": name, "rank": ranks[places[name]], **votes(totals[name])}
        one["rating"] = own.shown() if kind == "rating" else None
        participants.append({**one, "sources": sorted(of, key=itemgetter("source"))})
    head = {"contest_type": kind, **votes(whole), "rating": overall.shown() if kind == "rating" else None}
    return {**head, "participants": participants, "sources": sorted(sources, key=itemgetter("source"))}


def certificate_of(export: Export, given: Event) -> Event:
    """Return the certificate that the export gives for the contest and the closing of `given`."""
    contest, seq, (where, record) = given["contest_key"], given["seq"], decided(export, given)
    closing, topic = record["closing"], export.topic(record.get("votes_from", 0))
    at = {name: topic[crc32(f"{contest}:{name}".encode()) % len(topic)] for name in sorted(closing["sources"])}
    approved = [key for key, status, _ in closing["participants"] if status == "approved"]
    sums, partitions = Sums(), []
    for partition in topic:
        fold = Fold(contest, seq, [name for name in at if at[name] == partition])
        for offset, value in export.records("votes", partition):
            fold.take(offset, value)
            if len(fold.marks) == 1 + len(fold.sources):
                break
        else:
            raise BrokenFile(f"partition {partition} of the export ends before the close markers")
        leaves = (leaf(offset, *outcome(vote, approved), value.hex()) for offset, value, vote in fold.leaves)
        marks = [{"source": name, "mark": fold.marks[name]} for name in fold.sources]
        tree = {
            "mark": fold.marks[""],
            "sources": marks,
            "lost": sum(fold.lost.values()),
            "leaves": len(fold.leaves),
            "root": root_of(leaves).hex(),
        }
        partitions.append({"partition": partition, "log_id": fold.log_id, **tree})
        sums.add(fold)
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
        "result": result(sums, record, approved),
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
        proof = None if files.proof is None else json.loads(files.proof.read_bytes())
        if proof is not None:
            found += proof_problems(proof, certificate)
    except (BrokenFile, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        print(f"Not verified: {error if isinstance(error, BrokenFile | OSError) else repr(error)}")
        return 2
    if found:
        print("\n".join(found))
        return 1
    print(f"The export gives this certificate: sha256 {certificate['sha256']}")
    if proof is not None:
        where = f"offset {proof['offset']} of partition {proof['partition']}"
        print(f"The proof's vote, with the receipt {proof['receipt']}, is in it as {proof['became']}: {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
