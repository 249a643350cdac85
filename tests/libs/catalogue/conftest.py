"""One projected catalogue for a module's tests; each test has its own account."""

import uuid
from collections.abc import AsyncIterator

import pytest
from pydantic import Field

from libs.catalogue.resource_definition import Offer, Reference, Resource, Table
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS
from libs.catalogue.schemas.base import FreeForm, Record
from libs.local_stack.servers import Servers
from tests.support.builders.catalogue import Catalogue, open_catalogue


class Crate(Record):
    title: str | None = None
    shelves: list[FreeForm] = Field([])


class Label(Record):
    crate: FreeForm = Field({})
    shelf: str | None = None


CRATES = Resource(
    "crates", "crate", Crate, {"title": "A crate"}, offers=(Offer("/shelves/*/id", "crates/shelves"),)
)
LABELS = Resource("labels", "label", Label, {}, references=(Reference("/crate/key", "crates"),))
TAGS = Resource(
    "shelf_tags",
    "shelf_tag",
    Label,
    {},
    parent="crates",
    references=(Reference("/shelf", "crates/shelves", within_parent=True),),
)
TABLE = Table(CONTESTS, PARTICIPANTS, CRATES, LABELS, TAGS)
"""The real rows, and made-up ones that refer to one another."""


@pytest.fixture(scope="module")
async def catalogue(servers: Servers) -> AsyncIterator[Catalogue]:
    addresses = servers.addresses
    async with (
        open_catalogue(addresses.kafka, addresses.valkey, f"t{uuid.uuid4().hex[:8]}", TABLE) as catalogue,
        catalogue.folding(),
    ):
        yield catalogue


@pytest.fixture
def account() -> str:
    return f"account-{uuid.uuid4().hex[:8]}"
