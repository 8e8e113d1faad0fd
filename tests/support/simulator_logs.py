"""The rows of the WSE-2 fabric simulator's logs (github.com/pr0f3ss/SpMM_Cerebras) among the published measurements."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import wse

MEASUREMENTS = Path(wse.__file__).parent / "data" / "measurements" / "wse_microbench.csv"
"""Published measurements of collectives, links and PEs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One row: PEs in a line, words of each, cycles; the group of a two-phase reduce."""

    told: str
    length: int
    words: int
    cycles: int
    group: int


def logs(kernel: str, algorithm: str, version: str = "") -> list[Log]:
    """The rows of one algorithm, and of one code version where there are several."""
    with MEASUREMENTS.open(encoding="utf-8") as file:
        return [
            Log(
                told=f"{row['algorithm']} over {row['grid_w']} PEs, {row['vector_len_bytes']} bytes",
                length=int(row["grid_w"]),
                words=int(row["vector_len_bytes"]) // 4,
                cycles=int(row["value"]),
                group=int("".join(re.findall(r"S=(\d+)", row["algorithm"])) or 0),
            )
            for row in csv.DictReader(file)
            if row["platform"].startswith("WSE-2 SDK fabric simulator")
            and row["kernel"] == kernel
            and row["algorithm"].startswith(algorithm)
            and version in row["algorithm"]
        ]
