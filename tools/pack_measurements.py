"""Copy published measurements (CSV files) into the package, with shortened notes.

    python tools/pack_measurements.py ../shared/reference

All rows are copied, including those that no model predicts. In the column ``note``, only the facts
that predictors read (``FACTS``) are kept. The other columns stay as they are, except that
``(own arithmetic)`` is removed from the source.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from wse.reports.rows_csv import exact_csv
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.study import BUNDLED

FACTS: Final = (
    r"whole-simulation",
    r"(first|second) code version|preloaded|loaded per operation",
    r"group_?num(ber)?\s*=\s*\d+",
    r"compute repeated \d+ times",
    r"shift distance L\s*=\s*\d+ columns?",
    r"tile \d+x\d+",
    r"prefill\s+\d+\s*x\s*\d+\D+decode\s+\d+\s*x\s*\d+",
    r"re-?corrected",
    r"launch skew|launch itself ripples",
    r"row-major|reduction-dimension|two-hop transfers disabled",
)
ASIDE: Final = " (own arithmetic)"


def pack_row(m: Measurement) -> dict[str, str]:
    """Return the columns of a measurement, with its note reduced to the facts in ``FACTS``."""
    facts = [found[0] for fact in FACTS if (found := re.search(fact, m.text("note"), re.IGNORECASE))]
    source = {column: m.input[column].replace(ASIDE, "") for column in ("source",) if column in m.input}
    return {**m.input, **source, "note": "; ".join(facts)}


def text_of(rows: list[Measurement]) -> str:
    """Return the text of the CSV file for the measurements of one file."""
    return exact_csv(map(pack_row, rows), list(rows[0].input))


def main(folder: Path) -> None:
    """Shorten and copy every CSV file of a folder, and print its number of rows and its size."""
    for path in sorted(folder.glob("*.csv")):
        rows = read(path)
        text = text_of(rows)
        (BUNDLED / path.name).write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(rows)} rows, {len(text):,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
