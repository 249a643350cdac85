"""The table in `deploy/settings.md` is generated: TALLY_UPDATE_DOCUMENTS=1 writes it."""

import os
import re
from pathlib import Path

from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from libs.local_stack.settings import StackSettings
from services.gateway.settings import Settings as Gateway
from services.projector.settings import Settings as Projector

PAGE = Path(__file__).parents[1] / "deploy" / "settings.md"
TABLE = re.compile(r"(<!-- settings:[^>]*-->\n).*?(<!-- /settings -->)", re.DOTALL)
OF_SERVICES: tuple[type[BaseSettings], ...] = (Gateway, Projector)


def rows(*classes: type[BaseSettings]) -> list[str]:
    fields = {name: field for each in classes for name, field in each.model_fields.items()}
    return [
        f"| `TALLY_{name.upper()}` | {_default(field.default)} | {field.description} |"
        for name, field in sorted(fields.items())
    ]


def _default(value: object) -> str:
    is_given = value is not PydanticUndefined and value is not None and str(value)
    return f"`{value}`" if is_given else ""


def table() -> str:
    services = rows(*OF_SERVICES)
    known = {row.split("|")[1] for row in services}
    stack = [row for row in rows(StackSettings) if row.split("|")[1] not in known]
    head = ["| setting | default | meaning |", "|---|---|---|"]
    return "\n".join([*head, *services, *stack, ""])


def test_the_page_lists_every_setting_as_the_code_has_it() -> None:
    text = PAGE.read_text()
    expected = TABLE.sub(lambda found: found[1] + table() + found[2], text)
    if os.environ.get("TALLY_UPDATE_DOCUMENTS"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected


def test_every_setting_says_what_it_is() -> None:
    classes: list[type[BaseSettings]] = [*OF_SERVICES, StackSettings]
    for each in classes:
        assert all(field.description for field in each.model_fields.values())
