"""Tables as Parquet files in a folder: units and meanings in the metadata of fields, the run in the schema's."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wse.errors import BadInput
from wse.inspect.export.tables import FlatColumn, FlatTable
from wse.report.as_json import as_json


def check_parquet() -> None:
    """Raise BadInput where the library that writes Parquet is not there."""
    if importlib.util.find_spec("pyarrow") is None:
        message = "--to parquet: needs pyarrow: pip install 'wse[parquet]', or take --to csv"
        raise BadInput(message)


def write_parquet(
    tables: Sequence[FlatTable], run: dict[str, Any], folder: Path, heard: Callable[[int, int, str], None]
) -> list[str]:
    """Write each table to a file of its own; the names of all files. Codes are dictionary-encoded texts."""
    import pyarrow
    import pyarrow.parquet

    total, done = sum(table.rows for table in tables), 0
    for table in tables:
        schema = pyarrow.schema([_field(column) for column in table.columns], metadata={"run": as_json(run).strip()})
        with pyarrow.parquet.ParquetWriter(folder / f"{table.name}.parquet", schema) as writer:
            for piece in table.pieces():
                heard(done, total, table.name)
                arrays = [pyarrow.array(values, field.type) for values, field in zip(piece, schema, strict=True)]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
                done += len(piece[0])
    return [f"{table.name}.parquet" for table in tables]


def _field(column: FlatColumn) -> Any:
    import pyarrow

    if column.labels:
        kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    elif column.is_text:
        kind = pyarrow.string()
    else:
        kind = {
            "i4": pyarrow.int32(),
            "i8": pyarrow.int64(),
            "u1": pyarrow.uint8(),
            "f8": pyarrow.float64(),
        }[column.dtype]
    facts = {"unit": column.unit, "doc": column.doc, "dataset": column.path, "refers": column.refers}
    return pyarrow.field(column.name, kind, metadata={name: text for name, text in facts.items() if text})
