"""The OpenAPI document, built from the routers' descriptions."""

from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient
from pydantic import BaseModel, Field
from starlette.responses import Response

from libs.contracts.limits import COMMAND_BODY
from libs.web.documents.openapi import COMPONENT, MAX_BYTES, named, needs, problems, takes
from libs.web.documents.openapi_document import DocumentedApp, described, part_of


class Inner(BaseModel):
    value: int


class Outer(BaseModel):
    inner: Inner
    titled: Inner = Field(description="The other one.")


def document(*operations: dict[str, Any]) -> dict[str, Any]:
    """The document of one operation for each: `extra`, `tags` and `path` of its route."""
    app = DocumentedApp(title="t", openapi_tags=[{"name": "first"}, {"name": "second"}])
    for number, operation in enumerate(operations):

        async def endpoint() -> Response:
            """Does it."""
            return Response()

        app.add_api_route(
            operation.get("path", f"/{number}"),
            endpoint,
            methods=["POST"],
            tags=operation.get("tags", []),
            responses={200: {"description": "Done."}, **problems("not_found")},
            openapi_extra=operation.get("extra", {}),
            operation_id=str(number),
        )
    return app.openapi()


def test_what_is_marked_stands_once_among_the_components_and_is_referred_to() -> None:
    extra = needs("content:read") | takes(Outer, COMMAND_BODY)
    found = document({"extra": extra}, {"extra": extra})
    for path in ("/0", "/1"):
        operation = found["paths"][path]["post"]
        assert operation["requestBody"]["content"]["application/json"]["schema"] == reference("schemas/Outer")
        assert operation["responses"]["404"] == reference("responses/not_found")
    schemas = found["components"]["schemas"]
    assert schemas["Outer"]["properties"] == {
        "inner": reference("schemas/Inner"),
        "titled": {"allOf": [reference("schemas/Inner")], "description": "The other one."},
    }
    assert schemas["Inner"]["properties"] == {"value": {"type": "integer"}}
    assert COMPONENT not in str(found)


def reference(place: str) -> dict[str, str]:
    return {"$ref": f"#/components/{place}"}


def test_one_name_for_two_things_is_refused() -> None:
    one, other = named("Same", {"type": "string"}), named("Same", {"type": "integer"})
    with pytest.raises(ValueError, match="schemas/Same"):
        described({"paths": {"/": {"get": {"responses": {}, "a": one, "b": other}}}})


def test_an_operation_names_its_permission_or_needs_no_key() -> None:
    found = document(
        {"extra": needs("votes:write")}, {"extra": needs("content:read"), "tags": ["legacy"]}, {"tags": ["second"]}
    )["paths"]
    current, legacy, public = (found[path]["post"] for path in ("/0", "/1", "/2"))
    assert (current["security"], current["x-permission"]) == ([{"ApiKey": []}], "votes:write")
    assert current["description"] == "Does it.\n\nNeeds the permission `votes:write`."
    assert legacy["security"] == [{"ServiceBrand": [], "ServiceKey": []}]
    assert (public["security"], public["description"]) == ([], "Does it.")


def test_a_body_has_a_largest_size_or_the_document_is_not_made() -> None:
    found = document({"extra": takes(Outer, COMMAND_BODY)})
    assert found["paths"]["/0"]["post"]["requestBody"][MAX_BYTES] == COMMAND_BODY
    with pytest.raises(ValueError, match="post /0: its body has no largest size"):
        document({"extra": {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}}})


def test_the_current_api_and_the_legacy_one_have_documents_of_their_own_with_the_components_that_they_use() -> (
    None
):
    legacy = {"extra": needs("content:read") | takes(Inner, COMMAND_BODY), "tags": ["legacy"], "path": "/legacy/x"}
    whole = document({"extra": needs("content:read") | takes(Outer, COMMAND_BODY)}, legacy)
    current, old = part_of(whole, is_legacy=False), part_of(whole, is_legacy=True)
    assert (list(current["paths"]), list(old["paths"])) == (["/0"], ["/legacy/x"])
    assert list(current["components"]["schemas"]) == ["Inner", "InvalidField", "Outer", "Problem", "Referrer"]
    assert {"Inner"} <= old["components"]["schemas"].keys()
    assert "Outer" not in old["components"]["schemas"]
    assert list(current["components"]["securitySchemes"]) == ["ApiKey"]


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ({"Accept-Encoding": "br, GZIP;q=0.5"}, True),
        ({"Accept-Encoding": "gzip;q=0, br"}, False),
        ({"Accept-Encoding": "identity"}, False),
    ],
)
async def test_the_document_is_compressed_for_those_who_accept_that(
    accepted: dict[str, str], is_compressed: bool
) -> None:
    app = DocumentedApp(title="Documents")
    async with AsyncClient(transport=ASGITransport(app), base_url="http://documents.example") as client:
        for path in ("/openapi.json", "/openapi/current.json"):
            answer = await client.get(path, headers=accepted)
            assert answer.json()["openapi"].startswith("3.")
            assert answer.headers.get("Content-Encoding") == ("gzip" if is_compressed else None)
            assert answer.headers["Vary"] == "Accept-Encoding"
