"""Access to a stack's purchases, and the account option."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import typer

from libs.catalogue.api_keys import list_keys
from libs.contracts.topics import purchases_topic
from libs.deployment.deployment import Deployment, open_log
from libs.purchases.encryption import AccountCiphers
from libs.purchases.service import PurchaseService
from libs.storage.secrets import account_secret
from libs.storage.store import open_store
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from libs.views.purchases import PurchaseViews

Account = Annotated[
    str | None,
    typer.Option("--account", help="Owner of the purchases; default: the running stack's development account."),
]


@asynccontextmanager
async def open_purchase_service(stack: Deployment) -> AsyncIterator[PurchaseService]:
    topic = purchases_topic(stack.namespace, stack.partitions)
    valkey = open_valkey(stack.valkey)
    try:
        async with open_log(stack) as log:
            ciphers = AccountCiphers(partial(account_secret, open_store(stack.storage_url)))
            yield PurchaseService(topic, log, PurchaseViews(valkey, stack.namespace, topic), ciphers)
    finally:
        await valkey.close()


async def find_account(stack: Deployment, given: str | None) -> str:
    """Return the given or default account. Raises `BadParameter` if there is no such account."""
    account: str | None = given or stack.description.get("account")
    if account is None:
        raise typer.BadParameter("No running stack provides a default account.", param_hint="--account")
    valkey = open_valkey(stack.valkey)
    try:
        keys = await list_keys(CatalogueViews(valkey, stack.namespace))
    finally:
        await valkey.close()
    if account not in {key.account for key in keys}:
        unknown = f"There is no account {account}: it never had an API key."
        raise typer.BadParameter(unknown, param_hint="--account")
    return account
