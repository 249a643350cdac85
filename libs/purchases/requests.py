"""What a payment platform's purchase looks like on its way in, over HTTP and from files."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from libs.catalogue.schemas.base import Members, Timestamp, checked
from libs.contracts.person_ids import Identity
from libs.contracts.purchases import PurchasedVotes, PurchaseRecorded, Subscription
from libs.purchases.encryption import AccountCipher, Buyer
from libs.tally.time import microseconds

MAX_VOTES = 1_000_000
MAX_PRICE = 2**53 - 1

Name = Annotated[str, Field(min_length=1, max_length=256)]
Key = Annotated[str, Field(min_length=1, max_length=64)]
Token = Annotated[str, Field(min_length=1, max_length=4096)]


class VotesForm(Members):
    """The votes that a purchase is for."""

    contest_key: Key = Field(description="Key of the contest that they are cast in.")
    participant_key: Key = Field(description="Key of the participant whom they are for.")
    count: int = Field(ge=1, le=MAX_VOTES, description="Cast whole or not at all.")


class SubscriptionForm(Members):
    """How a subscription stands; kept and shown, and no more."""

    is_auto_renew: bool | None = Field(None, description="It goes on by itself.")
    grace_end: Timestamp | None = Field(None, description="Until when it holds without being paid.")
    expiration: Timestamp | None = Field(None, description="When it ends.")
    access: bool | None = Field(None, description="Whether the user has what it gives.")


class PurchaseForm(Members):
    """One purchase. The same `purchase_token` is the same purchase."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "user_id": "user-1",
                    "purchase_token": "GPA.3345-1",
                    "purchase_platform": "google_play",
                    "package_key": "votes-50",
                    "shop_key": "shop-1",
                    "price": 499,
                    "type": "vote",
                    "vote": {"contest_key": "c1", "participant_key": "p1", "count": 50},
                }
            ]
        }
    )
    ignored: ClassVar[frozenset[str]] = Members.ignored | {"status", "refusal"}

    user_id: Identity = Field(description="Who bought; the signed-in voter whose votes they are.")
    purchase_token: Token = Field(description="The payment platform's name of this purchase.")
    type: Name = Field(description="`vote` casts votes; others are kept.")
    vote: VotesForm | None = Field(None, description="With the type `vote`, and only with it.")
    subscription: SubscriptionForm | None = Field(None, description="Of a subscription, how it stands.")
    package_key: Name | None = Field(None, description="Not checked.")
    shop_key: Name | None = Field(None, description="Not checked.")
    price: int | None = Field(
        None, ge=0, le=MAX_PRICE, description="What was paid, in the smallest unit of the currency."
    )
    purchase_platform: Name | None = Field(None, description="Such as `google_play`.", examples=["google_play"])

    @model_validator(mode="after")
    def _votes_of_votes(self) -> Self:
        if (self.type == "vote") != (self.vote is not None):
            raise PydanticCustomError("votes", "a purchase has vote if, and only if, its type is vote")
        return self

    def recorded(self, account: str, cipher: AccountCipher, at: int) -> PurchaseRecorded:
        """The event, `at` microseconds since 1970 UTC."""
        given = self.subscription
        return PurchaseRecorded(
            account=account,
            key=cipher.key(self.purchase_token),
            at=at,
            content=cipher.content(self.model_dump(mode="json")),
            user=cipher.user(self.user_id),
            sealed=cipher.seal(Buyer(self.user_id, self.purchase_token)),
            kind=self.type,
            vote=None if self.vote is None else PurchasedVotes(**self.vote.model_dump()),
            package_key=self.package_key,
            shop_key=self.shop_key,
            price=self.price,
            purchase_platform=self.purchase_platform,
            subscription=None
            if given is None
            else Subscription(
                is_auto_renew=given.is_auto_renew,
                grace_end=None if given.grace_end is None else microseconds(given.grace_end),
                expiration=None if given.expiration is None else microseconds(given.expiration),
                access=given.access,
            ),
        )


class RefundForm(Members):
    """Which purchase was refunded."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"purchase_token": "GPA.3345-1"}]})

    purchase_token: Token = Field(description="The payment platform's name of the purchase.")


def parse_purchase(body: dict[str, Any]) -> PurchaseForm:
    """Raises `ValidationFailed`, naming every member that is wrong."""
    return checked(PurchaseForm, body)


def parse_refund(body: dict[str, Any]) -> RefundForm:
    """Raises `ValidationFailed`."""
    return checked(RefundForm, body)
