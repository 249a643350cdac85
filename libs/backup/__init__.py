"""`tally export` and `tally import`: the logs and the secrets as files, and a namespace made of them again."""

from services.cli.commands.export import export
from services.cli.commands.import_ import import_export

__all__ = ["export", "import_export"]
