"""Schema of a shop or master shop, and of the packages that it sells."""

from typing import ClassVar

from pydantic import Field

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


class Button(Members):
    text: str | None = Field(None, description="The button's text.")
    icon: Icon = Field({})
    style: Style = Field({})


class Package(Members):
    """A package of votes, or a subscription."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    key: str | None = Field(None, description="Set by the server; in a request it identifies an existing package.")
    created: ServerTime = Field(None, description="Time when the package was added.")
    updated: ServerTime = Field(None, description="Time of the package's last change.")
    title: Title = None
    package_type: str | None = Field(None, description="Type, such as `permanent`.")
    price: Count | None = Field(None, description="Price in the smallest unit of the currency.")
    vote_count: Count | None = Field(None, description="Number of votes in the package.")
    sub_months: Count | None = Field(None, description="Length of a subscription in months.")
    after_purchase_navigation: Navigation = Field({})


class Shop(Record):
    """Sells vote packages or subscriptions."""

    title: Title = None
    article: str | None = Field(None, description="Key of an article.")
    currency: str | None = Field(None, description="A currency code.")
    currency_symbol: str | None = Field(None, description="The currency's displayed symbol.")
    currency_template: str | None = Field(
        None, description="Placeholders: `{currency_symbol}`, `{price}`; other text in braces is kept."
    )
    title_template: str | None = Field(
        None, description="Placeholder: `{participant_title}`; other text in braces is kept."
    )
    description_template: str | None = Field(
        None, description="Placeholder: `{user_name}`; other text in braces is kept."
    )
    receipt_description_template: str | None = Field(
        None, description="Placeholder: `{get_votes_count}`; other text in braces is kept."
    )
    is_login_required: bool = Field(False, description="Only users who are logged in can buy.")
    shop_type: str | None = Field(None, description="Type, such as `participant_vote`.")
    payment_methods: list[str] = Field([], description="Such as `google_play`, `app_store`, `stripe`.")
    stripe_statement_descriptor_suffix: str | None = Field(None, description="Shown on a buyer's bank statement.")
    ok_button: Button = Field(default_factory=Button, description="The button that buys.")
    cancel_button: Button = Field(default_factory=Button, description="The button that cancels.")
    image: Picture = Field(Linked())
    style: Style = Field({})
    custom_data: CustomData = Field({})
    packages: list[Package] = Field([], description="The packages on sale. A package's key never changes.")
