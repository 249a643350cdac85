"""Pseudonyms and encryption of personal data in purchases, under the account's secret.

Without the secret, buyers and purchase tokens cannot be recovered. Each purpose has its own key.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from hmac import digest as hmac
from typing import Final, NamedTuple

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from libs.contracts.pseudonyms import pseudonym
from libs.tally.errors import TallyError

NONCE_BYTES: Final = 12


class SecretLost(TallyError):
    """The purchase was encrypted under another secret of its account."""

    code = "purchase_unreadable"


class Buyer(NamedTuple):
    """The buyer's user id or anonymous id, and the payment platform's purchase token."""

    identity: str
    purchase_token: str


class AccountCipher:
    """Encrypts and pseudonymises purchases under the secret of one account."""

    def __init__(self, account: str, secret: bytes) -> None:
        self._account = account
        self._secret = secret
        self._cipher = AESGCM(hmac(secret, b"sealing", "sha256"))

    def key(self, purchase_token: str) -> str:
        """Derive the purchase's key from its token."""
        return pseudonym(self._secret, "purchase", purchase_token)

    def user(self, user_id: str) -> str:
        """Derive the user's pseudonym in the account's purchases."""
        return pseudonym(self._secret, "user", user_id)

    def anonymous_buyer(self, anonymous_id: str) -> str:
        """Derive the pseudonym of a buyer without a user id; no user has the same."""
        return pseudonym(self._secret, "anonymous", anonymous_id)

    def seal(self, buyer: Buyer) -> str:
        """Encrypt `buyer` to base64url, with account and purchase key as associated data."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        purpose = self._purpose(self.key(buyer.purchase_token))
        sealed = self._cipher.encrypt(nonce, orjson.dumps(list(buyer)), purpose)
        return urlsafe_b64encode(nonce + sealed).decode()

    def unseal(self, key: str, sealed: str) -> Buyer:
        """Decrypt the buyer of purchase `key`. Raises `SecretLost`."""
        try:
            raw = urlsafe_b64decode(sealed)
            text = self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], self._purpose(key))
        except (InvalidTag, ValueError):
            raise SecretLost(f"Purchase {key} was recorded under another secret of its account.") from None
        return Buyer(*orjson.loads(text))

    def _purpose(self, key: str) -> bytes:
        return f"{self._account}\0{key}".encode()


class AccountCiphers:
    """Caches the cipher of each account, so that each secret is loaded once, until `forget`."""

    def __init__(self, load_secret: Callable[[str], Awaitable[bytes]]) -> None:
        """`load_secret` returns an account's secret and creates it if there is none."""
        self._load_secret = load_secret
        self._ciphers: dict[str, AccountCipher] = {}

    async def of(self, account: str) -> AccountCipher:
        """Return the account's cipher. Raises the errors of `load_secret`."""
        cipher = self._ciphers.get(account)
        if cipher is None:
            cipher = self._ciphers[account] = AccountCipher(account, await self._load_secret(account))
        return cipher

    def forget(self, account: str) -> None:
        """Load the account's secret again when it is next needed: it may have been put back into the store."""
        self._ciphers.pop(account, None)
