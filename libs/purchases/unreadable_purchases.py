"""Purchases that are recorded but cannot be read: log line, metric and API error."""

import logging

from libs.metrics.definitions import PURCHASES_UNREADABLE
from libs.tally.errors import TallyError
from libs.views.purchase_views import Unreadable

logger = logging.getLogger(__name__)


class PurchaseUnreadable(TallyError):
    """The purchase cannot be read and was not changed; a retry succeeds only after an operator's repair."""

    code = "purchase_unreadable"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Purchase {key} is recorded but cannot be read; it was not changed. Retry after the service's "
            "operator has repaired it.",
            key=key,
        )


def report(purchase: Unreadable) -> None:
    """Log the reason and increment the metric of unreadable purchases."""
    PURCHASES_UNREADABLE.inc()
    logger.warning("purchase %s of %s cannot be read: %s", purchase.key, purchase.account, purchase.reason)
