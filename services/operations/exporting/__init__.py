"""`tally export` and `tally import`: the logs and the secrets as files, and a namespace made of them again."""

from services.operations.exporting.export_command import export
from services.operations.exporting.import_command import import_export

__all__ = ["export", "import_export"]
