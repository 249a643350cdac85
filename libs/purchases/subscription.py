"""State of a subscription as of a moment."""

from dataclasses import replace

from libs.contracts.purchase_events import Subscription


def current(subscription: Subscription | None, now: int) -> Subscription | None:
    """Return the reported state as of `now` (us): no access after `grace_end`, or without one `expiration`."""
    if subscription is None:
        return None
    ends = subscription.expiration if subscription.grace_end is None else subscription.grace_end
    return replace(subscription, access=False) if ends is not None and ends <= now else subscription
