"""Events of purchases with everything filled in, so that a test names only what it is about."""

from typing import Any

from libs.contracts.purchases import PurchasedVotes, PurchaseRecorded

NOW_US = 1_790_000_000_000_000


def purchase_key(name: str) -> str:
    """22 characters, as a token's HMAC has."""
    return name.ljust(22, "-")


def a_purchase(name: str = "purchase", **changes: Any) -> PurchaseRecorded:
    """Three votes for p1 in contest c1, by the user u1 of account a1."""
    given: dict[str, Any] = {
        "account": "a1",
        "key": purchase_key(name),
        "at": NOW_US,
        "content": "content",
        "user": "u1",
        "sealed": "sealed",
        "kind": "vote",
        "vote": PurchasedVotes(contest_key="c1", participant_key="p1", count=3),
        "price": 199,
    }
    return PurchaseRecorded(**{**given, **changes})
