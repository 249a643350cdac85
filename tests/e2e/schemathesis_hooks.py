"""Further checks for schemathesis; the process of `test_schemathesis.py` loads this module by name."""

import re
from typing import Any, Final

import orjson
import schemathesis
from schemathesis.specs.openapi.checks import object_level_authorization

INEXPRESSIBLE: Final = {
    r"is not a token of this list|position token|min_position": "tokens are made by the server",
    r"exactly one": "one of two parameters",
    r"there is no|has no participant": "a reference to another record",
    r"has other terms than": "the same terms in two members",
    r"must be unique|occurs twice|must name each": "distinct by one member of the items",
    r"before start|before to|without allow_decrease|must not be above|must be the same time": "one member in "
    "relation to another",
    r"intervals, more than": "parameters and records together",
    r"is required if url is not given": "one of two parameters",
    r"is no picture|a broken picture": "what bytes are",
    r"Too many fields": "how many parts a form has, where lists become several",
    r"must be networks such as": "addresses with a prefix of their length",
    r"cannot be fetched|must be a URL|must be an http": "what is at a URL",
    r"bytes": "a length in bytes, where JSON Schema counts characters",
    r"at most 64 bits": "numbers within what a record keeps as it is",
    r"valid integer": "JSON Schema takes 1.0 for an integer",
    r"(start|end): is required": "null in an update, which a record without the member takes",
    r"and not allowed otherwise": "members that belong together",
    r"in the future|between 1970 and now": "what time it is",
    r"visible character": "which characters are visible, where a pattern would have to name all others",
    r"control characters": "which characters a text may have, where a pattern would have to name them all",
}
"""Rules that JSON Schema cannot say, by what the refusal says."""
FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")
IN_TEXTS: Final = (
    r"^/?\w+[./]|must be JSON text|valid (dictionary|list)|must be (a list of|an object with)|leave the part out"
)
"""Faults of JSON within a form's text: `contentSchema` describes it, and generators do not apply that."""
OF_THE_FORM: Final = ("malformed_json", "method_not_allowed", "unsupported_media_type", "validation_failed")


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: Any, value: Any) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else orjson.dumps(value)


@schemathesis.check
def what_fits_is_taken(ctx: Any, response: Any, case: Any) -> None:
    """Requests that fit the document are not refused for their form, unless by a rule that no schema can express.

    In place of `positive_data_acceptance`, which cannot distinguish the codes that share a status.
    """
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive or response.status_code < 400:
        return
    rules = [*INEXPRESSIBLE, *([IN_TEXTS] if case.media_type in FORMS else [])]
    problem = response.json()
    if "error" in problem:
        problem = problem["error"]
    if problem["code"] not in OF_THE_FORM:
        return
    errors = problem.get("errors", [])
    messages = [f"{error.get('pointer', error.get('parameter'))}: {error['message']}" for error in errors]
    messages = messages or problem.get("detail", problem.get("message")).split("; ")
    unknown = [message for message in messages if not any(re.search(rule, message) for rule in rules)]
    assert not unknown, f"fits the description and is refused: {unknown}"


@schemathesis.check
def strangers_read_shared_images_alone(ctx: Any, response: Any, case: Any) -> None:
    """`object_level_authorization` of legacy images, but for those in public use, which every brand may read."""
    is_image = case.method == "GET" and re.fullmatch(r"/legacy(-test)?/images/{image_id}", case.operation.path)
    if is_image and response.status_code == 200 and not response.json()["public_use"]:
        object_level_authorization(ctx, response, case)
