"""Concatenates an export's files into one."""

import shutil
from pathlib import Path
from typing import Final

from libs.backup.errors import ExportRefused
from libs.backup.manifest import Format, Manifest
from libs.backup.parquet_file import pyarrow_modules, schema
from libs.backup.private_files import flush, open_own

PARTS: Final = ".parts"
"""Suffix of the directory that holds the parts until the file is complete."""


def join(directory: Path, manifest: Manifest, file: Path) -> None:
    """Write all records to `file`, by topic, and remove the directory. Raises `ExportRefused`."""
    partial = directory / "all.part"
    try:
        with open_own(partial) as out:
            out.truncate()
            if manifest.request.format is Format.NDJSON:
                for part in manifest.parts:
                    with (directory / part.file).open("rb") as lines:
                        shutil.copyfileobj(lines, out)
            else:
                arrow, parquet = pyarrow_modules()
                with parquet.ParquetWriter(out, schema(arrow), compression="zstd") as writer:
                    for part in manifest.parts:
                        rows = parquet.ParquetFile(directory / part.file)
                        for group in range(rows.num_row_groups):
                            writer.write_table(rows.read_row_group(group))
            flush(out)
        partial.replace(file)
        shutil.rmtree(directory)
    except OSError as error:
        raise ExportRefused(f"{error.filename or file}: {error.strerror}") from error
