"""`tally sources`: the operator's view of external sources, and the release of held decreases."""

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.sources import Source, a_source
from tests.support.clients.voting import Api


async def held(api: Api) -> Source:
    """A source with an id that went down and one that is not mapped."""
    sms = await a_source(api, "A", title="Text messages")
    await sms.report(A=9)
    await sms.report(A=4, Z=2)
    return sms


@pytest.mark.secured
async def test_the_list_says_what_counts_and_what_is_held_and_why(api: Api, stack: Supervisor) -> None:
    sms = await held(api)
    key = sms.contest.key
    (shown,) = (await tally_json(stack, "sources", "list", key))["sources"]
    assert (shown["source"], shown["title"], shown["mode"], shown["retired"]) == (
        "sms",
        "Text messages",
        "cumulative",
        False,
    )
    assert [(row["mapped_id"], row["participant_key"], row["count"]) for row in shown["counted"]] == [
        ("A", sms.contest.participants[0], 9)
    ]
    assert [(row["mapped_id"], row["reason"], row["count"]) for row in shown["held"]] == [
        ("A", "decrease", 4),
        ("Z", "unmapped", 2),
    ]
    contest, name, *lines = (await tally(stack, "sources", "list", key)).stdout.splitlines()
    assert contest.endswith(f"({key})")
    assert name.startswith("sms (Text messages): cumulative, in total, last report 2")
    assert [" ".join(line.split()) for line in lines] == [
        "id participant title votes state",
        f"A {sms.contest.participants[0]} Participant 0 9 counted",
        "A - 4 held: decrease",
        "Z - 2 held: unmapped",
    ]


@pytest.mark.secured
async def test_a_release_previews_first_and_acts_with_execute(api: Api, stack: Supervisor) -> None:
    sms = await held(api)
    preview = await tally(stack, "sources", "release", sms.contest.key, "sms")
    assert (preview.exit_code, preview.stdout.splitlines()[1]) == (0, "A: 9 -> 4")
    assert "--execute" in preview.stdout
    assert await sms.counted() == [9, 0]
    done = await tally_json(stack, "sources", "release", sms.contest.key, "sms", "--execute")
    assert done["executed"]
    assert [(row["mapped_id"], row["before"]["count"], row["after"]["count"]) for row in done["released"]] == [
        ("A", 9, 4)
    ]
    [source] = (await tally_json(stack, "sources", "list", sms.contest.key))["sources"]
    assert [row["reason"] for row in source["held"]] == ["unmapped"]
    again = await tally(stack, "sources", "release", sms.contest.key, "sms", "--execute")
    assert (again.exit_code, again.stdout.splitlines()[1:]) == (0, ["No lower counts are held."])


async def test_what_is_not_there_is_bad_usage(api: Api, stack: Supervisor) -> None:
    contest = await api.contest(participants=0)
    assert (await tally(stack, "sources", "list", contest.key)).stdout.endswith(
        "\nThe contest has no external sources.\n"
    )
    assert (await tally(stack, "sources", "list", "none")).exit_code == 2
    assert (await tally(stack, "sources", "release", contest.key, "sms")).exit_code == 2
