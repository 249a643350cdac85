"""Titles, images, held counts and the seal, for readers of results alone."""

from typing import Any

import pytest

from libs.certificates.service import save
from libs.contracts.certificates import FORMAT, Certificate, stamped
from libs.storage.object_store import open_store
from tests.services.query.query_environment import QueryEnvironment, closed_contest, contest
from tests.services.query.streams.stream_clients import COUNTS, Service
from tests.support.clients.voting import code

PICTURE = {"image": {"key": "poster"}}


def a_certificate() -> Certificate:
    """A certificate of nothing: it is served as it is stored."""
    nothing: dict[str, Any] = {"participants": [], "sources": []}
    votes = {"count": 0, "unique_voter_count": 0, "anonymous_voter_count": 0}
    found: dict[str, Any] = {
        "format": FORMAT,
        "contest_key": "song",
        "title": "",
        "seq": 1,
        "end": 1,
        "decision": {"account": "acme", "log_id": "log", "offset": 1},
        "partitions": [],
        "result": {"contest_type": "voteonly", "rating": None} | votes | nothing,
        "sha256": "",
    }
    return stamped(Certificate.model_validate(found | nothing))


@pytest.mark.parametrize("visibility", ["shown", "hidden"])
async def test_a_stream_names_those_whom_it_counts_and_keeps_what_is_hidden(
    service: Service, visibility: str
) -> None:
    env = service.env
    await env.production.create("contests", "song", contest(vote_visibility=visibility) | PICTURE)
    await env.production.enter("song", "a", title="Ada", image_key="face")
    await env.production.enter("song", "b", title="Bob", status="pending")
    async with service.listen(
        f"{COUNTS}/stream?sources=true&details=true", await env.production.reader()
    ) as stream:
        phase = await stream.next()
        assert (phase.name, phase.data["visibility"]) == ("phase", visibility)
        details = await stream.next()
        assert (details.name, details.id) == ("details", None)
        assert details.data == {
            "title": "Song",
            "image": {"key": "poster"},
            "seal": None,
            "corrections": [],
            "running_order": ["a"],
            "participants": {
                "a": {
                    "title": "Ada",
                    "image": {"key": "face"},
                    "color": None,
                    "running_number": 1,
                    "number_string": "1",
                }
            },
        }
        if visibility == "shown":
            assert "title" not in (await stream.next("counts")).data
            await env.vote("a")
            assert (await stream.next()).name == "counts"
        await env.production.change("participants", "a", {"status": "approved", "title": "Ada L."})
        assert (await stream.next("details")).data["participants"]["a"]["title"] == "Ada L."


async def test_an_act_keeps_its_number_when_another_one_is_disqualified(env: QueryEnvironment) -> None:
    await env.production.create("contests", "song", contest() | {"running_order": ["c", "a", "b", "d"]})
    for name in "abcd":
        await env.production.enter("song", name, title=name, number_string="12b" if name == "d" else None)
    key = await env.production.reader()

    async def numbers() -> dict[str, str]:
        found = await env.counts(key, query="?details=true")
        return {name: entry["number_string"] for name, entry in found["participants"].items()}

    assert await numbers() == {"c": "1", "a": "2", "b": "3", "d": "12b"}
    await env.production.change("participants", "a", {"status": "rejected"})
    assert await numbers() == {"c": "1", "b": "3", "d": "12b"}


async def test_a_plain_read_has_details_on_request(env: QueryEnvironment) -> None:
    await env.production.create("contests", "song", contest() | PICTURE)
    await env.production.enter("song", "a", title="Ada")
    await env.production.register("song", "tv", title="TV", is_in_total=True, mode="cumulative", mapping={})
    await env.report("tv", ("x", 7, 0, 5))
    key = await env.production.reader()
    found = await env.counts(key, query="?sources=true&details=true")
    assert (found["title"], found["image"], found["seal"]) == ("Song", {"key": "poster"}, None)
    assert found["participants"]["a"]["title"] == "Ada"
    held = [source.get("held") for source in found["total_vote_sources"]]
    assert held == [None, None, [{"mapped_id": "x", "reason": "unmapped", "count": 7}]]
    plain = await env.counts(key)
    assert "title" not in plain
    assert "held" not in plain["total_vote_sources"][2]


async def test_the_certificate_of_a_sealed_contest_can_be_downloaded(env: QueryEnvironment) -> None:
    key = await env.production.reader()
    await env.production.create("contests", "song", closed_contest("a"))
    await env.production.enter("song", "a")
    path = "/contests/song/certificate"
    assert code(await env.get(path, key)) == (404, "not_found")
    certificate = a_certificate()
    await save(open_store(env.settings.storage_url), certificate)
    seal = {"seq": 1, "sha256": certificate.sha256, "sealed_at": 1_790_000_000_000_000}
    await env.production.change("contests", "song", closed_contest("a") | {"seal": seal})
    answer = await env.get(path, key)
    assert answer.content == certificate.canonical()
    assert certificate.sha256[:12] in answer.headers["content-disposition"]
    found = await env.counts(key, query="?details=true")
    assert found["seal"] == {"sha256": certificate.sha256, "sealed_at": "2026-09-21T14:13:20.000000Z"}
    hidden = closed_contest("a") | {"seal": seal}
    hidden["contest_config"]["vote_visibility"] = "hidden"
    await env.production.change("contests", "song", hidden)
    assert code(await env.get(path, key)) == (403, "results_hidden")
