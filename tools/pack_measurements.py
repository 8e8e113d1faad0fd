"""Write the measurements that come with wse: every row of the files in a folder, those that no model predicts too.

    python tools/pack_measurements.py ../shared/reference

Every column of a row stays as it is, except for the note: of it, the facts that predictors read are kept.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from pathlib import Path
from typing import Final

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
    """Return a row's columns, with the facts of its note instead of the note."""
    facts = [found[0] for fact in FACTS if (found := re.search(fact, m.text("note"), re.IGNORECASE))]
    source = {column: m.input[column].replace(ASIDE, "") for column in ("source",) if column in m.input}
    return {**m.input, **source, "note": "; ".join(facts)}


def text_of(rows: list[Measurement]) -> str:
    """Return the text of a packed file of these rows of one file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0].input), lineterminator="\n")
    writer.writeheader()
    writer.writerows(pack_row(m) for m in rows)
    return out.getvalue()


def main(folder: Path) -> None:
    """Pack every file of a folder."""
    for path in sorted(folder.glob("*.csv")):
        rows = read(path)
        text = text_of(rows)
        (BUNDLED / path.name).write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(rows)} rows, {len(text):,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
