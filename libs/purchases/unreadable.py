"""Purchases that are recorded and cannot be read: logged, counted, and an error for whoever asks for one."""

import logging

from libs.metrics.table import PURCHASES_UNREADABLE
from libs.tally.errors import TallyError
from libs.views.purchases import Unreadable

logger = logging.getLogger(__name__)


class PurchaseUnreadable(TallyError):
    """Nothing was changed, and trying again helps only after an operator has repaired the purchase."""

    code = "purchase_unreadable"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Purchase {key} is recorded, but cannot be read; nothing was changed. The service's operator has to "
            "repair it: send the request again then.",
            key=key,
        )


def report(one: Unreadable) -> None:
    """For the operator: the log has the reason, and a metric how often that happened."""
    PURCHASES_UNREADABLE.inc()
    logger.warning("purchase %s of %s cannot be read: %s", one.key, one.account, one.reason)
