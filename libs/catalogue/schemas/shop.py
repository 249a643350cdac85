"""A shop or master shop: what it sells, and how that is shown."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from libs.catalogue.schemas.base import Count, FreeForm, Members, Record, Timestamp


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
    text: str | None = None
    icon: FreeForm = Field({})
    style: FreeForm = Field({})


class Package(Members):
    """What is sold. The server gives `key`, `created` and `updated`; a `key` sent back names the package meant."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    key: str | None = None
    created: Timestamp | None = None
    updated: Timestamp | None = None
    title: str | None = None
    package_type: str | None = None
    price: Count | None = None
    vote_count: Count | None = None
    sub_months: Count | None = None
    after_purchase_navigation: FreeForm = Field({})


class Shop(Record):
    """Sells vote packages or subscriptions."""

    title: str | None = None
    article: str | None = Field(None, description="Key of an article.")
    currency: str | None = Field(None, description="A currency code.")
    currency_symbol: str | None = None
    currency_template: CurrencyTemplate | None = Field(
        None, description="Placeholders: `{currency_symbol}`, `{price}`."
    )
    title_template: TitleTemplate | None = Field(None, description="Placeholder: `{participant_title}`.")
    description_template: DescriptionTemplate | None = Field(None, description="Placeholder: `{user_name}`.")
    receipt_description_template: ReceiptTemplate | None = Field(
        None, description="Placeholder: `{get_votes_count}`."
    )
    is_login_required: bool = False
    shop_type: str | None = None
    payment_methods: list[str] = Field([])
    stripe_statement_descriptor_suffix: str | None = None
    ok_button: Button = Field(default_factory=Button)
    cancel_button: Button = Field(default_factory=Button)
    image: FreeForm = Field({}, description="`key` names an image.")
    style: FreeForm = Field({})
    custom_data: FreeForm = Field({}, description="Free-form.")
    packages: list[Package] = Field([])
