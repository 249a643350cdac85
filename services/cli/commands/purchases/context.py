"""Access to a deployment's purchases, and the account option."""

from functools import partial
from typing import Annotated

import typer

from libs.catalogue.api_keys import list_keys
from libs.deployment.deployment import Deployment
from libs.purchases.encryption import AccountCiphers
from libs.purchases.fold import PackageBounds
from libs.purchases.service import PurchaseService, PurchaseSettings
from libs.storage.secrets import account_secret

Account = Annotated[
    str | None,
    typer.Option("--account", help="Owner of the purchases; default: the running stack's development account."),
]


async def purchase_service(deployment: Deployment) -> PurchaseService:
    """Return the service. Raises as `Deployment.log`."""
    ciphers = AccountCiphers(partial(account_secret, deployment.store))
    bounds = PackageBounds(deployment.catalogue.views, PurchaseSettings().purchase_package_check == "refuse")
    return PurchaseService(
        deployment.purchases, await deployment.log(), deployment.purchase_views, ciphers, bounds
    )


async def find_account(deployment: Deployment, given: str | None) -> str:
    """Return the given or default account. Raises `BadParameter` if there is no such account."""
    account: str | None = given or deployment.description.get("account")
    if account is None:
        raise typer.BadParameter("No running stack provides a default account.", param_hint="--account")
    if account not in {key.account for key in await list_keys(deployment.catalogue.views)}:
        unknown = f"Account {account} not found: it never had an API key."
        raise typer.BadParameter(unknown, param_hint="--account")
    return account
