"""Members of a purchase: those accepted, those legible in the log, and those returned to callers."""

from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.purchase_events import Purchase, PurchaseStatus, Subscription, purchases_codec
from libs.contracts.validation import ValidationFailed
from libs.purchases.encryption import AccountCipher, SecretLost
from libs.purchases.schemas import mask, parse_purchase, show
from libs.purchases.service import FIXED

SECRET = b"s" * 32
CIPHER = AccountCipher("a1", SECRET)
TOKEN = "GPA.3345-1234-5678-90123"
VOTE = {"contest_key": "c1", "participant_key": "p1", "count": 3}


def body(**changes: Any) -> dict[str, Any]:
    return {"user_id": "user@example.com", "purchase_token": TOKEN, "type": "vote", "vote": VOTE} | changes


def seen(given: dict[str, Any], *, whole_token: bool = True) -> dict[str, Any]:
    recorded = parse_purchase(given).recorded("a1", CIPHER, 1)
    purchase = Purchase(
        account="a1",
        key=recorded.key,
        status=PurchaseStatus.RECORDED,
        created=1,
        updated=2,
        recorded=recorded,
        subscription=recorded.subscription,
    )
    return show(purchase, CIPHER, whole_token=whole_token).model_dump(mode="json")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"user_id": ""}, "/user_id"),
        ({"user_id": "x" * 257}, "/user_id"),
        ({"user_id": "a\nb"}, "/user_id"),
        ({"user_id": None}, ""),
        ({"anonymous_id": "device"}, ""),
        ({"user_id": None, "anonymous_id": ""}, "/anonymous_id"),
        ({"subscription": {"expiration": "2026-06-01T00:00:00Z"}, "expiration": "2026-07-01T00:00:00Z"}, ""),
        ({"expiration": "tomorrow"}, "/expiration"),
        ({"reported_at": 1}, "/reported_at"),
        ({"refunded": "yes"}, "/refunded"),
        ({"purchase_token": ""}, "/purchase_token"),
        ({"purchase_token": "x" * 4097}, "/purchase_token"),
        ({"purchase_token": 7}, "/purchase_token"),
        ({"type": None}, "/type"),
        ({"vote": None}, ""),
        ({"type": "subscription"}, ""),
        ({"vote": VOTE | {"count": 0}}, "/vote/count"),
        ({"vote": VOTE | {"count": 1_000_001}}, "/vote/count"),
        ({"vote": VOTE | {"count": 1.0}}, "/vote/count"),
        ({"vote": VOTE | {"contest_key": ""}}, "/vote/contest_key"),
        ({"vote": {"count": 3, "contest_key": "c1"}}, "/vote/participant_key"),
        ({"vote": VOTE | {"rating": 3}}, "/vote/rating"),
        ({"price": -1}, "/price"),
        ({"price": "199"}, "/price"),
        ({"subscription": {"expiration": "tomorrow"}}, "/subscription/expiration"),
        ({"subscription": {"access": "yes"}}, "/subscription/access"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_what_is_no_purchase_is_refused_naming_the_member(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        parse_purchase(body(**changes))
    assert [problem["pointer"] for problem in refused.value.data["errors"]] == [pointer]


def test_a_purchase_that_was_read_can_be_sent_again() -> None:
    subscription = {
        "is_auto_renew": True,
        "grace_end": "2026-05-01T20:00:00+02:00",
        "expiration": "2026-06-01T00:00:00Z",
        "access": False,
    }
    given = body(
        price=199, purchase_platform="google_play", package_key="k", shop_key="s", subscription=subscription
    )
    shown = seen(given)
    assert shown["subscription"]["grace_end"] == "2026-05-01T18:00:00.000000Z"
    again = parse_purchase(shown | {"user_id": given["user_id"]})
    first, second = (form.recorded("a1", CIPHER, 1) for form in (parse_purchase(given), again))
    assert replace(first, sealed="") == replace(second, sealed="", reported_at=None)
    assert isinstance(first.subscription, Subscription)


@pytest.mark.parametrize(
    "changes",
    [
        {"user_id": "other@example.com"},
        {"price": 1},
        {"vote": VOTE | {"count": 4}},
        {"type": "coins", "vote": None},
        {"user_id": None, "anonymous_id": "user@example.com"},
    ],
)
def test_other_content_of_the_same_token_is_distinguished(changes: dict[str, Any]) -> None:
    first, other = (parse_purchase(given).recorded("a1", CIPHER, 1) for given in (body(), body(**changes)))
    assert first.key == other.key
    assert [getattr(first, name) for name in FIXED] != [getattr(other, name) for name in FIXED]


def test_neither_buyer_nor_token_can_be_read_in_the_log() -> None:
    record = purchases_codec.encode(parse_purchase(body()).recorded("a1", CIPHER, 1))
    assert b"example.com" not in record
    assert TOKEN.encode() not in record


def test_only_the_accounts_own_secret_opens_a_purchase_and_only_as_itself() -> None:
    recorded = parse_purchase(body()).recorded("a1", CIPHER, 1)
    assert CIPHER.unseal(recorded.key, recorded.sealed) == ("user@example.com", TOKEN)
    other_key = CIPHER.key("another token")
    for cipher, key in [
        (AccountCipher("a1", b"t" * 32), recorded.key),
        (AccountCipher("a2", SECRET), recorded.key),
        (CIPHER, other_key),
    ]:
        with pytest.raises(SecretLost):
            cipher.unseal(key, recorded.sealed)


def test_the_token_is_masked_and_a_short_one_altogether() -> None:
    assert seen(body(), whole_token=False)["purchase_token"] == "GPA.…"
    assert seen(body())["purchase_token"] == TOKEN
    assert mask("x" * 11) == "…"
