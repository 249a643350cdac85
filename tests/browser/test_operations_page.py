"""The operator's page: problems first, each with its remedy, then positions and lag."""

import shlex

import pytest
from aiokafka import AIOKafkaProducer
from playwright.async_api import expect

from libs.contracts.topics import votes_topic
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.local_stack.supervisor import Supervisor
from libs.views.generations.generations import ProjectionName, projections_of
from libs.views.valkey.function_loading import open_valkey
from tests.browser.contest_pages import SOON_MS
from tests.support.clients.browser_types import Issue, Visit
from tests.support.clients.soundness import SIZES, is_sound

PATH = "/dashboard/operations"


async def test_where_all_is_well_one_line_says_so(visit: Visit, stack: Supervisor, issue: Issue) -> None:
    page = await visit(PATH, (await issue("operations")).api_key)
    await expect(page.locator("#fine")).to_contain_text("No problems", timeout=SOON_MS)
    await expect(page.locator("#problems li")).to_have_count(0)
    await expect(page.locator("#dependencies")).to_contain_text("log: ready")
    await expect(page.locator("#dependencies .bad")).to_have_count(0)
    await expect(page.locator("#freshness")).to_contain_text("Read ")
    await expect(page.locator("#rows tr")).to_have_count(len(ProjectionName))
    await page.get_by_role("button", name="All partitions").press("Enter")
    partitions = 2 * stack.stack["partitions"] + 8
    await expect(page.locator("#rows tr")).to_have_count(len(ProjectionName) + partitions)
    await is_sound(page, "operations-fine")


async def test_a_lost_connection_is_said_and_the_last_picture_stays_until_it_is_back(visit: Visit) -> None:
    page = await visit(PATH)
    await expect(page.locator("#freshness")).to_contain_text("Read ")
    await page.context.set_offline(True)
    await expect(page.locator("#trouble")).to_contain_text("does not respond")
    await expect(page.locator("#freshness")).to_contain_text("Not up to date")
    await expect(page.locator("#projections article")).to_have_count(len(ProjectionName))
    await page.context.set_offline(False)
    await expect(page.locator("#trouble")).to_be_hidden()
    await expect(page.locator("#freshness")).to_contain_text("Read ")


async def test_nobody_is_asked_while_the_page_is_out_of_sight(visit: Visit) -> None:
    page = await visit("/dashboard", alone=True)
    await page.clock.install()
    await page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.away === true })")
    await page.goto(PATH)
    await expect(page.locator("#freshness")).to_contain_text("Read ")
    await page.evaluate("window.away = true")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.clock.run_for(20_000)
    await expect(page.locator("#freshness")).to_contain_text("Not up to date")
    assert not asked
    await page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.locator("#freshness")).to_contain_text("Read ")


@pytest.fixture(scope="module")
async def trouble(stack: Supervisor) -> None:
    """A record that cannot be processed, and a replay that was left half way."""
    described = stack.stack
    topic = votes_topic(described["namespace"], described["partitions"])
    servers = KafkaSettings(kafka_bootstrap_servers=described["kafka"])
    async with AIOKafkaProducer(**connection(servers), acks="all") as producer:
        await producer.send_and_wait(topic.name, b"<script>alert(1)</script>", partition=3)
    valkey = open_valkey(described["valkey"])
    generations = projections_of(valkey, described["namespace"], described["partitions"])[ProjectionName.VOTES]
    for partition in range(described["partitions"]):
        await generations.open(partition, 2)
        await valkey.call("HSET", f"{generations.base(partition)}:g2:position", "log", "x", "offset", 1)
    await valkey.close()


async def test_a_problem_comes_first_with_a_command_that_can_be_copied(
    visit: Visit, stack: Supervisor, trouble: None
) -> None:
    page = await visit(PATH, permissions=["clipboard-read", "clipboard-write"])
    problem = page.locator("#problems li")
    await expect(problem).to_have_count(1)
    await expect(problem).to_contain_text("votes 3: records that could not be processed: 1")
    await expect(page.locator("#fine")).to_be_hidden()
    await expect(page.locator("#spoken")).to_contain_text("votes 3: quarantine")
    await expect(page.locator("#rows tr").filter(has_text="Votes 3")).to_be_visible()
    copy = problem.get_by_role("button", name="Copy tally quarantine list")
    await copy.focus()
    await page.keyboard.press("Enter")
    command = f"tally quarantine list --data-dir {shlex.quote(str(stack.data_dir.absolute()))}"
    assert await page.evaluate("navigator.clipboard.readText()") == command
    await expect(copy).to_be_focused()
    await is_sound(page, "operations-laptop")


async def test_how_far_a_replay_is_has_a_bar_and_one_that_stands_says_how_to_go_on(
    visit: Visit, stack: Supervisor, trouble: None
) -> None:
    page = await visit(PATH, size=SIZES["phone"])
    replay = page.locator("#generations li")
    await expect(replay).to_have_count(1)
    await expect(replay).to_contain_text("Votes, generation 2: building")
    await expect(replay.get_by_role("progressbar")).to_have_attribute("value", str(stack.stack["partitions"]))
    await expect(replay).to_contain_text("tally replay run --projection votes --execute")
    await expect(replay).to_contain_text("makes no progress")
    await is_sound(page, "operations-phone")
