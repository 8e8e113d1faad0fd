"""Published cycle logs of the WSE-2 fabric simulator (github.com/pr0f3ss/SpMM_Cerebras)."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import wse

MEASUREMENTS = Path(wse.__file__).parent / "data" / "measurements" / "wse_microbench.csv"
"""CSV file of published measurements of collectives, links and PEs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One logged run of a collective.

    Attributes:
        description: The run in words, for messages of failed tests.
        length: Number of PEs in the line.
        words: Number of words per PE.
        cycles: Logged cycles.
        group: Group size of a two-phase reduce; 0 for other algorithms.
    """

    description: str
    length: int
    words: int
    cycles: int
    group: int


def logs(kernel: str, algorithm: str, version: str = "") -> list[Log]:
    """Return the logged runs of an algorithm.

    Args:
        kernel: The collective, such as "reduce".
        algorithm: Start of the name of the algorithm.
        version: Version of the code, for algorithms that were logged with several versions.
    """
    with MEASUREMENTS.open(encoding="utf-8") as file:
        return [
            Log(
                description=f"{row['algorithm']} over {row['grid_w']} PEs, {row['vector_len_bytes']} bytes",
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
