"""A shop or master shop: what it sells, and how that is shown."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from libs.catalogue.schemas.base import (
    Count,
    CustomData,
    Icon,
    Linked,
    Members,
    Navigation,
    Picture,
    Record,
    ServerTime,
    Style,
    Title,
)


def only(*placeholders: str) -> AfterValidator:
    """Refuses a text in which other names than these stand in braces."""

    def check(value: str) -> str:
        unknown = [name for name in re.findall(r"\{([^{}]*)\}", value) if name not in placeholders]
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in placeholders)
            raise ValueError(f"{{{unknown[0]}}} stands for nothing here; known: {known}")
        return value

    return AfterValidator(check)


CurrencyTemplate = Annotated[str, only("currency_symbol", "price")]
TitleTemplate = Annotated[str, only("participant_title")]
DescriptionTemplate = Annotated[str, only("user_name")]
ReceiptTemplate = Annotated[str, only("get_votes_count")]


class Button(Members):
    text: str | None = Field(None, description="What is written on it.")
    icon: Icon = Field({})
    style: Style = Field({})


class Package(Members):
    """What is sold."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    key: str | None = Field(None, description="The server's; sent back, it names the package meant.")
    created: ServerTime = Field(None, description="When the package was added.")
    updated: ServerTime = Field(None, description="When the package was changed last.")
    title: Title = None
    package_type: str | None = Field(None, description="Such as `permanent`.")
    price: Count | None = Field(None, description="In the smallest unit of the currency.")
    vote_count: Count | None = Field(None, description="Votes in a package.")
    sub_months: Count | None = Field(None, description="Months of a subscription.")
    after_purchase_navigation: Navigation = Field({})


class Shop(Record):
    """Sells vote packages or subscriptions."""

    title: Title = None
    article: str | None = Field(None, description="Key of an article.")
    currency: str | None = Field(None, description="A currency code.")
    currency_symbol: str | None = Field(None, description="What stands for the currency, such as a sign.")
    currency_template: CurrencyTemplate | None = Field(
        None, description="Placeholders: `{currency_symbol}`, `{price}`."
    )
    title_template: TitleTemplate | None = Field(None, description="Placeholder: `{participant_title}`.")
    description_template: DescriptionTemplate | None = Field(None, description="Placeholder: `{user_name}`.")
    receipt_description_template: ReceiptTemplate | None = Field(
        None, description="Placeholder: `{get_votes_count}`."
    )
    is_login_required: bool = Field(False, description="Only users who are logged in can buy.")
    shop_type: str | None = Field(None, description="Such as `participant_vote`.")
    payment_methods: list[str] = Field([], description="Such as `google_play`, `app_store`, `stripe`.")
    stripe_statement_descriptor_suffix: str | None = Field(None, description="Shown on a buyer's bank statement.")
    ok_button: Button = Field(default_factory=Button, description="Buys.")
    cancel_button: Button = Field(default_factory=Button, description="Goes back.")
    image: Picture = Field(Linked())
    style: Style = Field({})
    custom_data: CustomData = Field({})
    packages: list[Package] = Field([], description="What is sold. A package keeps its key for life.")
