"""Generated documents are current; TALLY_UPDATE_DOCUMENTS=1 writes them again."""

import os
import re
import time
from typing import Any

import orjson

from libs.catalogue.contests.contest_mapper import phase_of
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from libs.tally.contest import Phase
from tests.support.openapi import ASYNCAPI, read_tracked, resolved, without_test_environment, write_tracked
from tests.support.voting import Api

DEFAULT_PARTITIONS = StackSettings.model_fields["partitions"].default


async def test_the_committed_description_is_the_one_that_is_served(api: Api) -> None:
    served = without_test_environment((await api.client.get("/openapi.json")).json())
    if os.environ.get("TALLY_UPDATE_DOCUMENTS"):
        write_tracked(served)
    assert read_tracked() == served


async def test_the_committed_description_of_the_log_is_the_one_that_is_served(api: Api, stack: Supervisor) -> None:
    answer = await api.client.get("/asyncapi")
    served = orjson.loads(answer.text.replace(stack.stack["namespace"], "tally"))
    here, by_default = (f"{number} partitions." for number in (stack.stack["partitions"], DEFAULT_PARTITIONS))
    for name in ("votes", "purchases"):
        described = served["channels"][name]
        assert described["description"].startswith(here)
        described["description"] = described["description"].replace(here, by_default)
    if os.environ.get("TALLY_UPDATE_DOCUMENTS"):
        # sorted, as its order is a set's
        write_tracked(orjson.loads(orjson.dumps(served, option=orjson.OPT_SORT_KEYS)), ASYNCAPI)
    assert read_tracked(ASYNCAPI) == served


EXAMPLES = ("example", "examples")
PUBLIC = {
    "/",
    "/public/contests/{contest_key}",
    "/public/contests/{contest_key}/results",
    "/public/contests/{contest_key}/results/stream",
    "/media/image/{image_id}",
    "/dashboard/session",
    "/livez",
    "/readyz",
    "/asyncapi",
    "/metrics",
}
"""Paths that need no key, except private images; and log-in, to which the key is sent."""
ALWAYS_THERE = {"/", "/livez", "/asyncapi", "/metrics"}
"""Paths that need only the process itself."""


def test_every_operation_says_what_it_does_how_it_fails_and_for_whom() -> None:
    document = read_tracked()
    groups = [tag["name"] for tag in document["tags"] if tag["description"]]
    order = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            assert operation.get("summary"), where
            (tag,) = operation["tags"]
            assert tag in groups, where
            order.append(groups.index(tag))
            assert any(status.startswith("2") for status in operation["responses"]), where
            assert ("503" in operation["responses"]) == (path not in ALWAYS_THERE), where
            assert (operation["security"] == []) == (path in PUBLIC), where
            if path not in PUBLIC:
                assert {"401", "503"} <= operation["responses"].keys(), where
                assert f"`{operation['x-permission']}`" in operation["description"], where
    assert order == sorted(order)


def test_every_parameter_and_field_of_the_current_api_is_described() -> None:
    document = read_tracked()
    reached: dict[str, Any] = {}

    def reach(value: Any, where: str) -> None:
        """Every field of what is there, by its place."""
        if isinstance(value, list):
            for item in value:
                reach(item, where)
        elif "$ref" in value:
            if value["$ref"] not in reached:
                reached[value["$ref"]] = {"description": "A component."}
                reach(resolved(document, value), value["$ref"].rpartition("/")[2])
        elif isinstance(value, dict):
            for name, item in value.items():
                if name == "properties":
                    reached.update({f"{where}.{member}": schema for member, schema in item.items()})
                    reach(list(item.values()), where)
                elif isinstance(item, dict | list) and name not in ("enum", "required", *EXAMPLES):
                    reach(item, where)

    def is_described(value: dict[str, Any]) -> bool:
        choices = [resolved(document, choice) for choice in value.get("anyOf", []) + value.get("allOf", [])]
        return any("description" in each for each in (value, resolved(document, value), *choices))

    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "legacy" not in operation["tags"]:
                where = f"{method.upper()} {path}"
                reached |= {
                    f"{where} {n}": resolved(document, schema)
                    for n, schema in enumerate(operation.get("parameters", ()))
                }
                reach([operation["responses"], operation.get("requestBody", {})], where)
    assert len(reached) > 500
    narrowed = {"enum"}  # of `code`, which Problem describes
    silent = [where for where, schema in reached.items() if schema.keys() != narrowed and not is_described(schema)]
    assert not silent


def test_every_link_leads_to_an_operation_with_the_parameters_that_it_gives() -> None:
    document = read_tracked()
    operations = {
        operation["operationId"]: operation
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    for link in document["components"]["links"].values():
        parameters = operations[link["operationId"]]["parameters"]
        found = [resolved(document, each) for each in parameters]
        assert link["parameters"].keys() == {each["name"] for each in found if each["in"] == "path"}
    for name in ("shop", "timeslot", "contest", "participant", "file"):
        linked = operations[f"create_{name}"]["responses"]["201"]["links"]
        assert linked.keys() == {f"get_{name}", f"update_{name}", f"delete_{name}"}


def test_operations_have_names_that_become_methods_of_clients() -> None:
    """A verb and what it acts on; generators of clients append numbers to names that are not unique."""
    names = [each["operationId"] for path in read_tracked()["paths"].values() for each in path.values()]
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)+", name)] == []


def test_titles_are_unique_and_examples_fit_their_errors() -> None:
    document = read_tracked()
    titles = [each["summary"] for path in document["paths"].values() for each in path.values()]
    assert sorted(set(titles)) == sorted(titles)
    problems = 0
    for answer in document["components"]["responses"].values():
        for content in answer.get("content", {}).values():
            codes = content["schema"].get("properties", {}).get("code", {}).get("enum", [])
            examples = content.get("examples", {})
            assert [each["value"]["code"] for each in examples.values()] == list(examples) == codes
            problems += bool(codes)
    assert problems > 20
    example = document["components"]["schemas"]["Contest"]["examples"][0]
    assert phase_of(example, time.time_ns() // 1000) is Phase.RUNNING
