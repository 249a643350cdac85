"""`tally wipe`: empties the legacy test environment."""

from collections import Counter
from typing import Annotated

from typer import BadParameter, Option

from libs.catalogue.api_keys import list_keys, revoke_key
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.deployment.environment_reset import delete_all, list_records
from libs.storage.object_store import environment_files
from services.cli.command_decorator import EnvironmentOption, Execute, command
from services.cli.output import Result


@command()
async def wipe(
    deployment: Deployment,
    environment: EnvironmentOption,
    keys: Annotated[bool, Option("--keys", help="Revoke its API keys as well.")] = False,
    execute: Execute = False,
) -> Result:
    """Delete every record and file of the legacy test environment; its API keys stay unless --keys is given."""
    if environment is not Environment.TEST:
        raise BadParameter("Only the test environment can be wiped.", param_hint="--environment")
    catalogue, reader, store = deployment.catalogue_of(environment), deployment.reader, deployment.store
    writer = await catalogue.writer()
    files = environment_files(environment.namespace(deployment.namespace))
    records, objects = await list_records(catalogue, reader), await store.names(files)
    issued = await list_keys(catalogue.views) if keys else []
    if execute:
        await delete_all(catalogue, reader, writer, deployment.progress)
        for name in await store.names(files):
            await store.delete(name)
        for key in issued:
            await revoke_key(writer, key, keeps_descendants=True)
    accounts: dict[str, Counter[str]] = {}
    for account, resource in [*(name[:2] for name in records), *((key.account, "keys") for key in issued)]:
        accounts.setdefault(account, Counter())[resource] += 1
    text = [
        f"{account}: {', '.join(f'{number:,} {resource}' for resource, number in sorted(numbers.items()))}"
        for account, numbers in sorted(accounts.items())
    ]
    if objects:
        text.append(f"files: {len(objects):,}")
    rows = [{"account": account, "records": numbers} for account, numbers in sorted(accounts.items())]
    members = {"accounts": rows, "objects": len(objects)}
    nothing = "" if text else "The environment is empty."
    return Result.change(members, text, execute, "Deleted.", "delete all of this permanently", nothing)
