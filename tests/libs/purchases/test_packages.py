"""Packages bound the votes of their purchases; a setting makes an excess a warning."""

import json
from typing import Any

import pytest

from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import ValidationFailed
from libs.purchases.schemas import PurchaseForm, parse_purchase
from libs.purchases.service import PackageBounds
from libs.views.catalogue.catalogue_views import CatalogueViews


class Shops(CatalogueViews):
    """Shops on pages of one; the last sells the package of three votes."""

    def __init__(self) -> None:
        sold = {"s1": [], "s2": [{"key": "p", "vote_count": 3}]}
        self.shops = [
            Stored(key, 1, 9 - at, 9 - at, 0, "", json.dumps({"packages": packages}))
            for at, (key, packages) in enumerate(sold.items())
        ]

    async def get(self, account: str, resource: str, key: str) -> Stored | None:
        return next((shop for shop in self.shops if (resource, shop.key) == ("shops", key)), None)

    async def page(self, account: str, resource: str, *, after: int | str = "", **__: Any) -> list[Stored]:
        found = self.shops if resource == "shops" else []
        return [shop for shop in found if not isinstance(after, int) or shop.created < after][:1]


def of_votes(count: int, **changes: str) -> PurchaseForm:
    vote = {"contest_key": "c", "participant_key": "p1", "count": count}
    body = {"user_id": "u", "purchase_token": "t", "type": "vote", "vote": vote, "package_key": "p"}
    return parse_purchase(body | changes)


@pytest.mark.parametrize("shop", [{}, {"shop_key": "s2"}])
async def test_more_votes_than_the_package_has_are_refused(shop: dict[str, str]) -> None:
    bounds = PackageBounds(Shops())
    await bounds.check("a", of_votes(3, **shop))
    with pytest.raises(ValidationFailed):
        await bounds.check("a", of_votes(4, **shop))


@pytest.mark.parametrize("changes", [{"shop_key": "s1"}, {"shop_key": "none"}, {"package_key": "none"}])
async def test_a_package_that_the_shop_does_not_sell_bounds_nothing(changes: dict[str, str]) -> None:
    await PackageBounds(Shops()).check("a", of_votes(4, **changes))


async def test_an_excess_can_be_reported_only(caplog: pytest.LogCaptureFixture) -> None:
    await PackageBounds(Shops(), refuses=False).check("a", of_votes(4))
    assert "4 votes of a package of 3" in caplog.text
