"""What is personal in purchases: named by keyed hashes, and sealed under the account's secret.

Without the secret nobody can tell who bought, nor with which token. Each purpose has a key of its own.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from hmac import digest as hmac
from typing import Any, Final, NamedTuple

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from libs.contracts.pseudonyms import pseudonym
from libs.tally.errors import TallyError

NONCE_BYTES: Final = 12


class SecretLost(TallyError):
    """The account's secret is not the one that this purchase was recorded under."""

    code = "purchase_unreadable"


class Buyer(NamedTuple):
    """Who bought, and the payment platform's name of the purchase."""

    user_id: str
    purchase_token: str


class AccountCipher:
    """The secret of one account, put to use."""

    def __init__(self, account: str, secret: bytes) -> None:
        self._account = account
        self._secret = secret
        self._cipher = AESGCM(hmac(secret, b"sealing", "sha256"))

    def key(self, purchase_token: str) -> str:
        """The purchase's key."""
        return pseudonym(self._secret, "purchase", purchase_token)

    def user(self, user_id: str) -> str:
        """The user's pseudonym in the account's purchases."""
        return pseudonym(self._secret, "user", user_id)

    def content(self, members: dict[str, Any]) -> str:
        """Tells purchases with the same token but other members apart; says nothing of them to others."""
        return pseudonym(self._secret, "content", orjson.dumps(members, option=orjson.OPT_SORT_KEYS).decode())

    def seal(self, buyer: Buyer) -> str:
        """Base64url that only the secret opens, and only as the same purchase."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        purpose = self._purpose(self.key(buyer.purchase_token))
        sealed = self._cipher.encrypt(nonce, orjson.dumps(list(buyer)), purpose)
        return urlsafe_b64encode(nonce + sealed).decode()

    def unseal(self, key: str, sealed: str) -> Buyer:
        """Raises `SecretLost`."""
        try:
            raw = urlsafe_b64decode(sealed)
            text = self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], self._purpose(key))
        except (InvalidTag, ValueError):
            raise SecretLost(f"Purchase {key} was recorded under another secret of its account.") from None
        return Buyer(*orjson.loads(text))

    def _purpose(self, key: str) -> bytes:
        return f"{self._account}\0{key}".encode()


class AccountCiphers:
    """The vaults of all accounts, each secret loaded once."""

    def __init__(self, load_secret: Callable[[str], Awaitable[bytes]]) -> None:
        """`load_secret` gives an account's secret, made when there is none yet."""
        self._load_secret = load_secret
        self._ciphers: dict[str, AccountCipher] = {}

    async def of(self, account: str) -> AccountCipher:
        """Raises what loading the secret raises."""
        cipher = self._ciphers.get(account)
        if cipher is None:
            cipher = self._ciphers[account] = AccountCipher(account, await self._load_secret(account))
        return cipher
