"""Errors of exports and imports."""

from libs.tally.errors import TallyError


class ExportRefused(TallyError):
    """The directory holds other files or cannot be written; this call exported no record."""

    code = "export_refused"


class ImportRefused(TallyError):
    """The export is missing, incomplete or damaged, or the target holds other records."""

    code = "import_refused"
