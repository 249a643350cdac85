"""Why an export is not made, or not taken in."""

from libs.tally.errors import TallyError


class ExportRefused(TallyError):
    """The directory holds something else, or cannot be written; no record was exported by this call."""

    code = "export_refused"


class ImportRefused(TallyError):
    """The export is none, not whole, or damaged, or the target holds something else."""

    code = "import_refused"
