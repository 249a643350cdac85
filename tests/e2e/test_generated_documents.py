"""Generated documents are current; TALLY_UPDATE_DOCUMENTS=1 writes them again."""

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import orjson

from libs.catalogue.contests.closing_record import phase_of
from libs.catalogue.errors import InUse
from libs.catalogue.schemas.base import merge_patch
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from libs.tally.contest import Phase
from libs.tally.errors import LimitReached, LimitScope
from libs.web.errors import Forbidden
from tests.support.clients.voting import Api
from tests.support.models.openapi import ASYNCAPI, read_tracked, resolved, without_test_environment, write_tracked

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
    assert not [where for where, schema in reached.items() if not is_described(schema)]


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


def schemas_within(document: dict[str, Any], value: dict[str, Any], is_item: bool = False) -> Iterator[Any]:
    """Every schema of a body with whether it is within a list, whose items a merge patch does not merge."""
    value = resolved(document, value)
    yield value, is_item
    for choice in value.get("anyOf", []) + value.get("allOf", []) + list(value.get("properties", {}).values()):
        yield from schemas_within(document, choice, is_item)
    if "items" in value:
        yield from schemas_within(document, value["items"], is_item=True)


def patch_bodies(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The schemas of all PATCH bodies by their component's name."""
    operations = [methods["patch"] for methods in document["paths"].values() if "patch" in methods]
    contents = [content for each in operations for content in each["requestBody"]["content"].values()]
    return {
        content["schema"]["$ref"].rpartition("/")[2]: resolved(document, content["schema"]) for content in contents
    }


def test_a_patch_has_a_schema_of_its_own_without_defaults_and_required_members() -> None:
    document = read_tracked()
    bodies = patch_bodies(document)
    assert {"ContestPatch", "ParticipantPatch", "FilePatch", "AccountSettingsPatch"} <= bodies.keys()
    assert [name for name in bodies if not name.endswith("Patch")] == []
    for name, body in bodies.items():
        for schema, is_item in schemas_within(document, body):
            assert "default" not in schema, name
            assert is_item or "required" not in schema, name
    contest = bodies["ContestPatch"]["properties"]
    assert contest["title"]["type"] == ["string", "null"]
    assert {"type": "null"} in contest["contest_config"]["anyOf"]


def test_a_client_that_fills_in_defaults_changes_only_the_members_that_it_sets() -> None:
    """As generated clients do: they send the default of each member of an object that they build."""
    document = read_tracked()

    def built(schema: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
        choices = schemas_within(document, {"anyOf": [schema]})
        properties = next(choice["properties"] for choice, _ in choices if "properties" in choice)
        defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
        return defaults | {
            name: built(properties[name], value) if isinstance(value, dict) else value
            for name, value in members.items()
        }

    stored = {"contest_type": "rating", "contest_config": {"free": {"max_contest": 7, "max_participant": 1}}}
    changes = {"contest_config": {"free": {"max_participant": 5}}}
    assert merge_patch(stored, built(patch_bodies(document)["ContestPatch"], changes)) == {
        "contest_type": "rating",
        "contest_config": {"free": {"max_contest": 7, "max_participant": 5}},
    }


def test_components_have_a_title_of_their_own_and_no_object_as_a_default() -> None:
    schemas = read_tracked()["components"]["schemas"]
    assert {name: schema["title"] for name, schema in schemas.items() if schema.get("title", name) != name} == {}

    def object_defaults(value: Any, where: str) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("default"), dict) and "properties" not in where.rpartition("/")[2]:
                yield where
            for name, item in value.items():
                yield from object_defaults(item, f"{where}/{name}")
        elif isinstance(value, list):
            for item in value:
                yield from object_defaults(item, where)

    assert list(object_defaults(schemas, "")) == []


def examples_within(value: Any, where: str = "", *, is_names: bool = False) -> Iterator[tuple[str, Any, Any]]:
    """Place, schema and value of each example."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from examples_within(item, f"{where}/{index}")
    elif isinstance(value, dict):
        if not is_names:
            schema = value.get("schema", {name: each for name, each in value.items() if name not in EXAMPLES})
            if "example" in value:
                yield where, schema, value["example"]
            found = value.get("examples", [])
            named = [each["value"] for each in found.values()] if isinstance(found, dict) else found
            yield from ((where, schema, each) for each in named)
        for name, item in value.items():
            if is_names or name not in (*EXAMPLES, "default"):
                is_members = not is_names and name in ("properties", "schemas")
                yield from examples_within(item, f"{where}/{name}", is_names=is_members)


def test_every_example_fits_its_schema() -> None:
    # references to one document, which is prepared once and not for each of the examples
    document = orjson.loads(orjson.dumps(read_tracked()).replace(b'"$ref":"#/', b'"$ref":"urn:document#/'))
    registry = jsonschema_rs.Registry([("urn:document", document)])
    found = list(examples_within(document))
    assert len(found) > 100
    wrong = {}
    for where, schema, value in found:
        validator = jsonschema_rs.Draft202012Validator(schema, registry=registry)
        if errors := [error.message for error in validator.iter_errors(value)]:
            wrong[where] = errors
    assert wrong == {}


def test_errors_have_one_schema_that_declares_the_data_of_each_code() -> None:
    """Generators call each schema without a name `InlineObject`."""
    document = read_tracked()
    answers = document["components"]["responses"].values()
    schemas = [content["schema"] for each in answers for content in each.get("content", {}).values()]
    assert [schema for schema in schemas if "$ref" not in schema] == []
    declared = document["components"]["schemas"]["Problem"]["properties"]
    errors = (LimitReached(LimitScope.CONTEST, 3, 3, 1), InUse([("shops", "s1")]), Forbidden("content:write"))
    for error in errors:
        assert error.data.keys() <= declared.keys()
        validator = jsonschema_rs.Draft202012Validator(
            {"components": document["components"], "properties": declared}
        )
        assert list(validator.iter_errors(error.data)) == []


def test_each_choice_of_a_schema_has_a_type() -> None:
    def untyped(value: Any, where: str) -> Iterator[str]:
        if isinstance(value, dict):
            choices = value.get("anyOf", ()) if isinstance(value.get("anyOf"), list) else ()
            typed = ("type", "$ref", "allOf", "anyOf", "const", "enum")
            yield from (where for choice in choices if not any(name in choice for name in typed))
            for name, item in value.items():
                if name not in EXAMPLES:
                    yield from untyped(item, f"{where}/{name}")
        elif isinstance(value, list):
            for item in value:
                yield from untyped(item, where)

    found = list(untyped(read_tracked(), ""))
    assert [where for where in found if "/legacy" not in where] == []


def test_titles_are_unique_and_examples_fit_their_errors() -> None:
    document = read_tracked()
    titles = [each["summary"] for path in document["paths"].values() for each in path.values()]
    assert sorted(set(titles)) == sorted(titles)
    problems = 0
    for name, answer in document["components"]["responses"].items():
        for content in answer.get("content", {}).values():
            examples = content.get("examples", {})
            assert [each["value"]["code"] for each in examples.values()] == list(examples)
            assert not examples or name.split(".") == list(examples)
            problems += bool(examples)
    assert problems > 20
    example = document["components"]["schemas"]["Contest"]["examples"][0]
    assert phase_of(example, time.time_ns() // 1000) is Phase.RUNNING
