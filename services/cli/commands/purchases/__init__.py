"""`tally purchases`: imports purchases from files, lists refunds, and reconciles purchases with votes."""

from services.cli.command_decorator import command_group
from services.cli.commands.purchases.import_ import import_purchases
from services.cli.commands.purchases.reconcile import reconcile
from services.cli.commands.purchases.refunds import refunds

app = command_group("Purchases and the votes bought with them.")
app.command("import")(import_purchases)
app.command()(refunds)
app.command()(reconcile)
