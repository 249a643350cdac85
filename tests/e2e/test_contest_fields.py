"""Effect of every field of `contest_config`, and of every parameter of the legacy contest table.

`BEHAVIOURS` names each field of the schema. `stored` ones do nothing on the server: clients read them.
"""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from libs.catalogue.schemas.contest import ContestConfig
from libs.legacy.contests import FIELDS
from tests.e2e.contest_field_behaviours import BAD, BEHAVIOURS, LEGACY_PARAMETERS
from tests.support.voting import Api, code


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The paths of all members that are no typed objects themselves; through lists as through objects."""
    for name, info in model.model_fields.items():
        inner = [each for each in models_in(info.annotation) if each is not dict]
        if inner:
            yield from fields(inner[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def config_with(path: str, value: Any) -> dict[str, Any]:
    """`contest_config` with one member set; of a list's items, the whole list is the value."""
    *outer, last = path.split(".")
    if outer and outer[-1] in ("sub_rating_configs", "positions"):
        *outer, last = outer
    for step in [last, *reversed(outer)]:
        value = {step: value}
    found: dict[str, Any] = value
    return found


def contained(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return all(name in whole and contained(value, whole[name]) for name, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(contained, part, whole))
    return bool(part == whole)


def test_the_table_names_every_field_of_the_schema() -> None:
    assert set(fields(ContestConfig)) == set(BEHAVIOURS)


@pytest.mark.parametrize("path", [path for path, does in BEHAVIOURS.items() if callable(does)])
async def test_a_field_causes_its_behaviour(api: Api, path: str) -> None:
    behaviour = BEHAVIOURS[path]
    assert callable(behaviour)
    await behaviour(api)


@pytest.mark.parametrize("path", [path for path, does in BEHAVIOURS.items() if not callable(does)])
async def test_a_field_that_does_nothing_here_is_kept_and_shown(api: Api, path: str) -> None:
    values = BEHAVIOURS[path]
    assert isinstance(values, tuple)
    for value in values:
        config = config_with(path, value)
        contest = await api.contest(0, {"contest_config": config})
        shown = (await api.client.get(contest.path)).json()["contest_config"]
        assert contained(config, shown)


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in BAD.items() for value in values])
async def test_a_bad_value_is_refused_with_its_pointer(api: Api, path: str, value: Any) -> None:
    answer = await api.client.post("/contests", json={"contest_config": config_with(path, value)})
    assert code(answer) == (422, "validation_failed")
    assert answer.json()["errors"][0]["pointer"] == "/contest_config/" + path.replace(".", "/")


def test_every_legacy_parameter_has_the_behaviour_of_a_field_or_is_the_records_own() -> None:
    for parameter, means in LEGACY_PARAMETERS.items():
        assert means in BEHAVIOURS or means.startswith(("record: ", "records: ")), parameter
    canonical = {field.legacy.rpartition(".")[2]: field.canonical for field in FIELDS}
    for parameter, means in LEGACY_PARAMETERS.items():
        if parameter in canonical:
            assert canonical[parameter].removeprefix("contest_config.") == means.removeprefix("record: ")
