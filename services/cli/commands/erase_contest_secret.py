"""`tally erase-contest-secret`: makes a sealed contest's votes permanently anonymous."""

import time
from functools import partial

from libs.catalogue.contests.closing_record import erased
from libs.catalogue.resource_table import CONTESTS
from libs.deployment.deployment import Deployment
from libs.storage.secrets import erase_contest_secret
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, Execute, command
from services.cli.contest_lookup import named
from services.cli.output import Result

CONSEQUENCES = """\
- Votes and allowances can no longer be read or removed by voter: such requests get 410.
- Votes can no longer be attributed to purchases; bought votes count even if refunded.
- The contest can never be reopened.
Its counts, seal and receipts stay. Backups and exports of the object store still contain the secret."""


@command()
async def erase_secret(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> Result:
    """Destroy the secret that links a sealed contest's votes to its voters; the counts stay."""
    account = await deployment.catalogue.owner_of(contest)
    records = await deployment.catalogue.record_service()
    document = (await records.get(CONTESTS, account, contest)).document
    change = partial(erased, now=time.time_ns() // 1000)
    change(document)
    if execute:
        # The record first: it prevents reopening, and a repeated call completes an interrupted one.
        document = (await records.amend(CONTESTS, account, contest, change)).stored.document
        await erase_contest_secret(deployment.store, contest)
    title, erased_at = document.get("title") or "", timestamp(document.get("secret_erased"))
    name = named(contest, title)
    if execute:
        text = [f"{name}: the secret is destroyed."]
    elif erased_at is not None:
        text = [f"{name}: the secret was destroyed at {erased_at}; --execute repeats it to be sure."]
    else:
        text = [f"{name} is sealed. Permanent effects of destroying its secret:", CONSEQUENCES]
        text.append("Run again with --execute to destroy it.")
    return Result({"contest_key": contest, "title": title, "erased_at": erased_at, "executed": execute}, text)
