"""`tally purchases`: files recorded once however often they are imported, and orphans found in each direction."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from libs.catalogue.api_keys import issue_key
from libs.contracts.codec import vote_codec
from libs.contracts.purchase_events import (
    Purchase,
    PurchaseCast,
    PurchaseEvent,
    PurchaseRecorded,
    PurchaseRefunded,
    PurchaseRefused,
    PurchaseStatus,
    PurchaseTakenBack,
)
from libs.contracts.topics import Topic, topics_of, votes_topic
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.topics import create_topics
from libs.purchases.encryption import AccountCipher
from libs.purchases.fold import paid_vote
from libs.purchases.schemas import parse_purchase
from libs.storage.object_store import Store, open_store
from libs.storage.secrets import account_secret, contest_secret, erase_contest_secret
from libs.tally.events import ContestClosed, Event, VoteCast, VoteRemoved
from services.cli.commands.purchases import app
from tests.support.builders.catalogue import open_catalogue
from tests.support.builders.contests import a_cast, a_removal
from tests.support.builders.purchases_log import FoldedPurchases, folded_purchases
from tests.support.clients import commands
from tests.support.eventually import eventually

ACCOUNT = "a1"
CONTEST = "c1"


def a_body(token: str, **changes: Any) -> dict[str, Any]:
    vote = {"contest_key": CONTEST, "participant_key": "p1", "count": 3}
    return {"user_id": "buyer", "purchase_token": token, "type": "vote", "vote": vote} | changes


@dataclass
class Environment:
    """The logs and views of a deployment without a process that casts what is bought."""

    purchases: FoldedPurchases
    votes: Topic
    store: Store

    async def bought(self, token: str) -> tuple[PurchaseRecorded, VoteCast]:
        """A purchase, and the record that its votes would have; neither is in the log yet."""
        cipher = AccountCipher(ACCOUNT, await account_secret(self.store, ACCOUNT))
        recorded = parse_purchase(a_body(token)).recorded(ACCOUNT, cipher, time.time_ns() // 1000)
        assert recorded.vote is not None
        vote = paid_vote(recorded, recorded.vote, cipher, await contest_secret(self.store, CONTEST))
        cast = a_cast("p1", 3, contest=CONTEST, vote_id=vote.vote_id, content=vote.content, source="c-paid")
        return recorded, replace(cast, voter=vote.voter)

    async def append(self, *events: PurchaseEvent | VoteCast | VoteRemoved) -> None:
        for event in events:
            if isinstance(event, VoteCast | VoteRemoved):
                partition = self.votes.partition_of(event.voter)
                await self.purchases.log.append(self.votes.name, partition, vote_codec.encode(event))
            else:
                await self.purchases.append(event)

    async def append_everywhere(self, event: Event) -> None:
        for partition in range(self.votes.partitions):
            await self.purchases.log.append(self.votes.name, partition, vote_codec.encode(event))


@pytest.fixture
async def env(deployment: DeploymentAddresses) -> AsyncIterator[Environment]:
    servers = deployment.kafka, deployment.valkey, deployment.namespace
    async with (
        open_catalogue(*servers) as catalogue,
        catalogue.folding(),
        folded_purchases(*servers, deployment.partitions) as purchases,
    ):
        await create_topics(catalogue.kafka, topics_of(deployment.namespace, deployment.partitions))
        await issue_key(catalogue.writer, ACCOUNT, ["purchases:write"])
        votes = votes_topic(deployment.namespace, deployment.partitions)
        yield Environment(purchases, votes, open_store(deployment.storage_url))


run = partial(commands.run, of=app)
EXECUTE = ("--execute", "--account", ACCOUNT)


def a_file(tmp_path: Path, *lines: dict[str, Any] | str) -> str:
    path = tmp_path / "purchases.ndjson"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


async def test_a_file_is_checked_first_and_nothing_recorded(env: Environment, tmp_path: Path) -> None:
    file = a_file(tmp_path, a_body("t1"), "", "nonsense", a_body("t2", price=-1), a_body("t3"))
    preview = await run("import", file)
    assert preview.exit_code == 1
    assert preview.output.splitlines() == [
        "line 3: is not JSON",
        "line 4: /price: Input should be greater than or equal to 0",
        "2 purchases can be recorded: run again with --execute.",
        "2 lines are invalid.",
    ]
    printed = json.loads((await run("import", file, "--json")).stdout)
    assert (printed["executed"], printed["good"], printed["bad_count"]) == (False, 2, 2)
    assert [bad["line"] for bad in printed["bad"]] == [3, 4]
    recorded, _ = await env.bought("t1")
    assert await env.purchases.views.get(ACCOUNT, recorded.key) is None


async def test_a_file_may_be_imported_again_and_again(env: Environment, tmp_path: Path) -> None:
    tokens = [f"token {number}" for number in range(500)]
    file = a_file(tmp_path, *map(a_body, tokens))
    outcomes = []
    for _ in range(2):
        printed = commands.printed(await run("import", file, *EXECUTE, "--json"))
        outcomes.append((printed["recorded"], printed["replayed"], printed["bad_count"]))
    assert outcomes == [(500, 0, 0), (0, 500, 0)]
    for token in tokens:
        recorded, _ = await env.bought(token)
        purchase = await env.purchases.views.get(ACCOUNT, recorded.key)
        assert isinstance(purchase, Purchase)
        assert purchase.recorded is not None
        assert purchase.recorded.user == recorded.user


async def test_good_lines_are_recorded_beside_bad_ones_and_a_reused_token_is_one(
    env: Environment, tmp_path: Path
) -> None:
    await run("import", a_file(tmp_path, a_body("t1")), *EXECUTE)
    file = a_file(tmp_path, a_body("t1", price=7), a_body("t2"), "[]")
    done = await run("import", file, *EXECUTE)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "line 1: /purchase_token: This purchase_token was recorded with other content.",
        "line 3: must be a JSON object",
        "Recorded 1 purchases or states; 0 were recorded before.",
        "2 lines are invalid.",
    ]


async def test_refunds_are_listed_with_reasons_and_tokens_only_when_asked_beside_what_cannot_be_read(
    env: Environment,
) -> None:
    bought = [(await env.bought(token))[0] for token in ("GPA.3345-1234-5678", "two", "three")]
    refusals = [
        PurchaseRefused(account=ACCOUNT, key=one.key, at=1, code="not_found", reason="No contest.")
        for one in bought
    ]
    await env.append(*bought, *refusals)

    async def are_refused() -> bool:
        return {await env.purchases.status(one) for one in bought} == {PurchaseStatus.REFUSED}

    await eventually(are_refused)
    first, _, bad = bought
    refunds = partial(run, "refunds", "--account", ACCOUNT)
    plain = await refunds()
    assert plain.exit_code == 0
    assert f"{first.key} GPA.…" in plain.output
    assert "not_found: No contest." in plain.output
    whole = commands.printed(await refunds("--tokens", "--json"))
    assert {one["purchase_token"] for one in whole["refunds"]} == {"GPA.3345-1234-5678", "two", "three"}
    await env.purchases.corrupt(bad)
    found = await refunds("--json")
    assert found.exit_code == 1
    listed = json.loads(found.stdout.splitlines()[-1])
    assert {one["key"] for one in listed["refunds"]} == {one.key for one in bought[:2]}
    assert [one["key"] for one in listed["unreadable"]] == [bad.key]
    assert f"{bad.key} cannot be read: " in (await refunds()).output


async def reconciled(waiting_s: int = 0) -> tuple[int, dict[str, Any]]:
    done = await run("reconcile", "--json", "--waiting-s", str(waiting_s))
    return done.exit_code, json.loads(done.stdout)


async def test_purchases_without_their_votes_and_votes_without_their_purchase_are_found(env: Environment) -> None:
    waits, _ = await env.bought("waits")
    lost, _ = await env.bought("lost")
    await env.append(waits, lost, PurchaseCast(account=ACCOUNT, key=lost.key, at=1, accepted_at=1))
    code, found = await reconciled(waiting_s=60)
    assert (code, found["waiting"], [one["key"] for one in found["uncast"]]) == (1, 1, [lost.key])
    code, found = await reconciled()
    assert (code, found["waiting"], found["unpaid"]) == (1, 0, [])
    assert {one["key"] for one in found["uncast"]} == {lost.key, waits.key}
    plain = await run("reconcile")
    assert plain.exit_code == 1
    assert f"bought, but not counted: purchase {lost.key}" in plain.output
    _, cast = await env.bought("never recorded")
    await env.append(cast)
    _, found = await reconciled()
    assert [(one["vote_id"], one["choices"]) for one in found["unpaid"]] == [(cast.vote_id, [["p1", 3]])]


async def test_refunded_and_refused_votes_that_still_count_are_found(env: Environment) -> None:
    refunded, refunded_cast = await env.bought("refunded")
    refused, refused_cast = await env.bought("refused")
    taken, taken_cast = await env.bought("taken back")
    await env.append(refunded, refunded_cast, refused, refused_cast, taken, taken_cast, removal_of(taken_cast))
    await env.append(
        *(PurchaseRefunded(account=ACCOUNT, key=key, at=1) for key in (refunded.key, taken.key)),
        PurchaseTakenBack(account=ACCOUNT, key=taken.key, at=1),
        PurchaseRefused(account=ACCOUNT, key=refused.key, at=1, code="c", reason="r"),
    )
    code, found = await reconciled()
    still_counted = {one["key"]: one["status"] for one in found["not_taken_back"]}
    assert (code, still_counted) == (1, {refunded.key: "refunded", refused.key: "refused"})


async def test_a_removal_behind_the_close_and_a_contest_without_its_secret_make_no_orphan(
    env: Environment,
) -> None:
    recorded, cast = await env.bought("t1")
    await env.append(recorded, cast)
    await env.append_everywhere(ContestClosed(contest=CONTEST, seq=1))
    await env.append(PurchaseRefunded(account=ACCOUNT, key=recorded.key, at=1), removal_of(cast))
    code, found = await reconciled()
    assert (code, found["held"], found["erased"], found["votes"]) == (0, 1, 0, 1)
    await erase_contest_secret(env.store, CONTEST)
    code, found = await reconciled()
    assert (code, found["fits"], found["erased"], found["votes"]) == (0, True, 1, 1)


def removal_of(cast: VoteCast) -> VoteRemoved:
    removal = a_removal(cast.vote_id, contest=cast.contest, content=cast.content, source="c-paid", reason="refund")
    return replace(removal, voter=cast.voter)
