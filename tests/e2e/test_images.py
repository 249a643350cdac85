"""Images through the gateway, with the records that refer to them, and with votes."""

import asyncio
from contextlib import ExitStack

import psutil

from libs.local_stack.supervisor import Supervisor
from tests.support.builders.pictures import encoded, halves, opened, picture
from tests.support.clients.http_clients import http_client
from tests.support.clients.voting import Api, code
from tests.support.servers.frozen_process import stopped


async def test_a_picture_is_there_for_voters_as_long_as_a_record_refers_to_it(api: Api, stack: Supervisor) -> None:
    made = await api.client.post("/images", files={"file": ("stage.jpg", picture("jpg", 1200, 600))})
    assert made.status_code == 201, made.text
    key = made.json()["key"]
    contest = await api.contest()
    await api.client.patch(contest.path, json={"image": {"key": key}})
    participant = await api.participant(contest, title="Ada", image_key=key)
    async with http_client(base_url=stack.stack["media_url"]) as voter:
        for size, expected in {"thumb": (150, 75), "default": (800, 400), "large": (1200, 600)}.items():
            shown = await voter.get(f"/image/{key}", params={"size": size})
            assert opened(shown.content).size == expected
        for path in (contest.path, f"/participants/{participant}"):
            assert code(await api.client.delete(f"/images/{key}")) == (409, "in_use")
            name = "image" if path == contest.path else "image_key"
            assert (await api.client.patch(path, json={name: None})).status_code == 200
        assert (await api.client.delete(f"/images/{key}")).status_code == 204
        gone = await voter.get(f"/image/{key}")
        assert (gone.status_code, gone.json()["error"]["message"]) == (400, "image not found")


MEANWHILE = 30
"""Votes while the decoder stands still: of a gateway that waited for it, the first few were answered at most."""


async def test_a_large_picture_does_not_stand_in_the_way_of_votes(api: Api, stack: Supervisor) -> None:
    contest = await api.contest(free={"max_contest": -1, "max_participant": -1})
    photo = {"file": ("photo.jpg", encoded(halves(6000, 4000), "jpg"))}
    assert (await api.client.post("/images", files=photo)).status_code == 201
    decoders = psutil.Process(stack.pids["gateway"]).children()
    with ExitStack() as frozen:
        for decoder in decoders:
            frozen.enter_context(stopped(decoder.pid))
        uploading = asyncio.create_task(api.client.post("/images", files=photo))
        for number in range(MEANWHILE):
            assert (await contest.vote(0, f"voter {number}")).status_code == 201
        assert decoders
        assert not uploading.done()
    assert (await uploading).status_code == 201
