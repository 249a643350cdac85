"""Request schemas of purchases and refunds, over HTTP and from files."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from libs.catalogue.schemas.base import Members, Timestamp, checked
from libs.contracts.person_ids import Identity
from libs.contracts.purchase_events import PurchasedVotes, PurchaseRecorded, Subscription
from libs.purchases.encryption import AccountCipher, Buyer
from libs.tally.time import microseconds

MAX_VOTES = 1_000_000
MAX_PRICE = 2**53 - 1

Name = Annotated[str, Field(min_length=1, max_length=256)]
Key = Annotated[str, Field(min_length=1, max_length=64)]
Token = Annotated[str, Field(min_length=1, max_length=4096)]


class VotesForm(Members):
    """The purchased votes."""

    contest_key: Key = Field(description="Key of the contest in which the votes are cast.")
    participant_key: Key = Field(description="Key of the participant who receives the votes.")
    count: int = Field(ge=1, le=MAX_VOTES, description="Number of votes; all of them are cast, or none.")


class SubscriptionForm(Members):
    """The state of a subscription; stored and returned only."""

    is_auto_renew: bool | None = Field(None, description="The subscription renews automatically.")
    grace_end: Timestamp | None = Field(None, description="End of the grace period without payment.")
    expiration: Timestamp | None = Field(None, description="End of the subscription.")
    access: bool | None = Field(None, description="The user has access to the subscribed content.")


class PurchaseForm(Members):
    """One purchase, identified by its `purchase_token`."""

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

    user_id: Identity = Field(description="Id of the buyer, who is the signed-in voter of the votes.")
    purchase_token: Token = Field(description="The payment platform's token of the purchase.")
    type: Name = Field(description="`vote` casts votes; other types are only stored.")
    vote: VotesForm | None = Field(None, description="Required for the type `vote`, not allowed otherwise.")
    subscription: SubscriptionForm | None = Field(None, description="The state of a subscription.")
    package_key: Name | None = Field(None, description="Key of the purchased package; not checked.")
    shop_key: Name | None = Field(None, description="Key of the shop; not checked.")
    price: int | None = Field(
        None, ge=0, le=MAX_PRICE, description="Price paid, in the smallest unit of the currency."
    )
    purchase_platform: Name | None = Field(
        None, description="Payment platform, such as `google_play`.", examples=["google_play"]
    )

    @model_validator(mode="after")
    def _votes_of_votes(self) -> Self:
        if (self.type == "vote") != (self.vote is not None):
            raise PydanticCustomError("votes", "vote is required if the type is vote, and not allowed otherwise")
        return self

    def recorded(self, account: str, cipher: AccountCipher, at: int) -> PurchaseRecorded:
        """Build the event; `at` is in microseconds since 1970 UTC."""
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
    """The refunded purchase."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"purchase_token": "GPA.3345-1"}]})

    purchase_token: Token = Field(description="The payment platform's token of the purchase.")


def parse_purchase(body: dict[str, Any]) -> PurchaseForm:
    """Parse a purchase. Raises `ValidationFailed` with a problem for each invalid member."""
    return checked(PurchaseForm, body)


def parse_refund(body: dict[str, Any]) -> RefundForm:
    """Parse a refund. Raises `ValidationFailed`."""
    return checked(RefundForm, body)
