"""Permissions and bodies as typed parameters of a route: checked in their order, and documented."""

from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI
from pydantic import BaseModel, ConfigDict

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import COMMAND_BODY
from libs.web.documents.openapi_document import DocumentedApp
from libs.web.door.typed_routes import JsonBody, Permitted, Sent, TypedRoute
from libs.web.errors import Unauthorized, handle_errors
from tests.support.clients.voting import code
from tests.support.models.openapi import resolved


class Order(BaseModel):
    """An order."""

    model_config = ConfigDict(extra="forbid")

    count: int
    title: str


class Caller:
    """The account "acme", with the permissions of its header."""

    async def authenticate(self, scope: dict[str, Any]) -> Any:
        headers = dict(scope["headers"])
        if b"permissions" not in headers:
            raise Unauthorized("No key.")
        return type("Key", (), {"account": "acme", "permissions": {headers[b"permissions"].decode()}})


AUTH: Any = Caller()
Seller = Annotated[ApiKey, Depends(Permitted(AUTH, "orders:write"))]
Form = Annotated[Sent[Order], Depends(JsonBody(Order, COMMAND_BODY))]


@pytest.fixture
def app() -> FastAPI:
    router = APIRouter(route_class=TypedRoute)

    @router.post("/orders")
    async def order(caller: Seller, sent: Form) -> dict[str, Any]:
        return {"account": caller.account, "count": sent.form.count, "bytes": len(sent.content)}

    app = DocumentedApp(title="t")
    handle_errors(app)
    app.router.routes.extend(router.routes)
    return app


def test_the_document_has_the_permission_and_the_body_of_the_signature(app: FastAPI) -> None:
    document = app.openapi()
    operation = document["paths"]["/orders"]["post"]
    assert operation["description"] == "Needs the permission `orders:write`."
    assert operation["requestBody"]["required"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(resolved(document, schema)["properties"]) == {"count", "title"}
    assert "parameters" not in operation


def test_schemas_are_built_for_the_document_and_not_at_the_start(app: FastAPI) -> None:
    [route] = [route for route in app.routes if isinstance(route, TypedRoute)]
    assert not route.openapi_extra
    app.openapi()
    assert route.openapi_extra


async def test_the_key_is_checked_before_the_body_and_all_faults_of_a_body_are_named(app: FastAPI) -> None:
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
    broken: Any = {"content": b"{", "headers": {"permissions": "other"}}
    assert code(await client.post("/orders", content=b"{")) == (401, "unauthorized")
    assert code(await client.post("/orders", **broken)) == (403, "forbidden")
    allowed = {"permissions": "orders:write"}
    assert code(await client.post("/orders", content=b"{", headers=allowed)) == (400, "malformed_json")
    bad = await client.post("/orders", json={"count": "x", "more": 1}, headers=allowed)
    assert code(bad) == (422, "validation_failed")
    assert {error["pointer"] for error in bad.json()["errors"]} == {"/count", "/title", "/more"}
    good = await client.post("/orders", content=b'{"count": 2, "title": ""}', headers=allowed)
    assert good.json() == {"account": "acme", "count": 2, "bytes": 25}


def test_a_body_before_the_permission_is_refused_when_the_route_is_made() -> None:
    async def order(sent: Form, caller: Seller) -> None: ...

    with pytest.raises(TypeError, match="permission must come before"):
        TypedRoute("/orders", order, methods=["POST"])
