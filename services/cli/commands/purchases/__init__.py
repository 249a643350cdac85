"""`tally purchases`: taking purchases in from files, the refund list, and whether all of them have their votes."""

import typer

from services.cli.commands.purchases.import_ import import_purchases
from services.cli.commands.purchases.reconcile import reconcile
from services.cli.commands.purchases.refunds import refunds

app = typer.Typer(no_args_is_help=True, help="Purchases, and the votes that they paid for.")
app.command("import")(import_purchases)
app.command()(refunds)
app.command()(reconcile)
