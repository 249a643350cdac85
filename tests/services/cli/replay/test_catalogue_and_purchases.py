"""Replays of catalogue and purchases: the same records, keys and outcomes; open work is done."""

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.topics import CATALOGUE_PARTITIONS, legacy_test_namespace
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import ProjectionName
from tests.services.cli.replay.context import ReplayContext, voted
from tests.support.clients.purchases_over_http import becomes, paid, purchase, refund, send, wait_for_paid_votes
from tests.support.clients.voting import Api, code, new_id, running

ALL = ["catalogue", "test", "votes", "purchases"]


async def replayed(context: ReplayContext, *projections: str) -> None:
    named = [part for name in projections for part in ("--projection", name)]
    done = await context.run_json("replay", "run", *named, "--execute")
    rebuilt = {one["projection"]: one for one in done["rebuilt"]}
    assert list(rebuilt) == list(projections or ALL)
    assert all(one["swapped"] and one["verified"]["equal"] for one in rebuilt.values())


async def keys_of_test(context: ReplayContext) -> list[tuple[ApiKey, ...] | None]:
    views = CatalogueViews(context.valkey, legacy_test_namespace(context.deployment.namespace))
    return [(await views.keys(partition, "")).rows for partition in range(CATALOGUE_PARTITIONS)]


async def test_records_keep_their_etags_keys_and_the_outcomes_of_commands_also_of_the_legacy_test_environment(
    api: Api, context: ReplayContext
) -> None:
    once = {"Idempotency-Key": new_id()}
    created = await api.client.post("/contests", json=running(), headers=once)
    contest = await api.contest()
    await voted(contest, "ann", "bob")
    paths = [f"/contests/{created.json()['key']}", contest.path, f"{contest.path}/participants", "/contests"]
    before = [await api.client.get(path) for path in paths]
    numbers, test_keys = [await context.live(ProjectionName(name)) for name in ALL], await keys_of_test(context)
    assert any(test_keys)
    await replayed(context)
    after = [await context.live(ProjectionName(name)) for name in ALL]
    assert all(new > old for new, old in zip(after, numbers, strict=True))
    assert await keys_of_test(context) == test_keys
    for path, had in zip(paths, before, strict=True):
        found = await api.client.get(path)
        assert (found.json(), found.headers.get("etag")) == (had.json(), had.headers.get("etag"))
    again = await api.client.post("/contests", json=running() | {"title": "Other"}, headers=once)
    assert code(again) == (422, "idempotency_key_reused")
    unchanged = {"If-Match": before[0].headers["etag"]}
    patched = await api.client.patch(paths[0], json={"title": "New"}, headers=unchanged)
    assert patched.status_code == 200, patched.text
    stranger = {"Authorization": "Bearer nobody"}
    assert (await api.client.get(paths[0], headers=stranger)).status_code == 401


async def test_purchases_are_as_they_were_and_cast_no_votes_again(api: Api, context: ReplayContext) -> None:
    contest = await api.contest(paid={"max_contest": -1, "max_participant": -1})
    bodies = [purchase(contest, 7, user=f"buyer {number}") for number in range(4)]
    records = [await becomes(api.client, await send(api.client, body), "cast") for body in bodies]
    await refund(api.client, records[0])
    await becomes(api.client, records[0], "refunded")
    await wait_for_paid_votes(contest, 21)
    before = [(await api.client.get(f"/api/purchases/{record['key']}")).json() for record in records]
    await replayed(context, "purchases")
    assert [(await api.client.get(f"/api/purchases/{record['key']}")).json() for record in records] == before
    again = await api.client.post("/operations/purchases", json=bodies[1])
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
    await refund(api.client, records[1])
    await wait_for_paid_votes(contest, 14)
    assert await paid(contest) == 14
    assert (await context.run_json("purchases", "reconcile"))["fits"]


async def test_a_catalogue_that_reads_otherwise_is_swapped_only_when_that_is_accepted(
    api: Api, context: ReplayContext
) -> None:
    contest = await api.contest()
    generations, live = context.generations(ProjectionName.CATALOGUE), await context.live(ProjectionName.CATALOGUE)
    for name in await context.keys_of(live, "c"):
        if b":records:" in name and name.endswith(b":contests"):
            packed = await context.valkey.call("HGET", name, contest.key)
            if packed is not None:
                spoilt = packed.replace(b"Final", b"Fatal")
                assert spoilt != packed
                await context.valkey.call("HSET", name, contest.key, spoilt)
    rebuild = "replay", "run", "--projection", "catalogue", "--execute"
    refused = await context.run(*rebuild)
    assert refused.exit_code == 1
    assert "differs from the current view: partition" in refused.stdout
    assert contest.key in refused.stdout
    assert "--accept-differences swaps it in" in refused.stdout
    assert await context.live(ProjectionName.CATALOGUE) == live
    [rebuilt] = (await context.run_json(*rebuild, "--accept-differences"))["rebuilt"]
    assert (rebuilt["resumed"], rebuilt["swapped"], rebuilt["verified"]["equal"]) == (True, True, False)
    assert [one["field"] for one in rebuilt["verified"]["differences"]] == [contest.key]
    assert (await api.client.get(contest.path)).json()["title"] == "Final"
    assert all(one.swaps for one in (await generations.read_all()).values())
