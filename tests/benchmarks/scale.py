"""Measure what large runs and sweeps need, and write docs/scale.md.

    python tests/benchmarks/scale.py --output docs/scale.md
    python tests/benchmarks/scale.py --only layer

All figures are measured on one machine. The page states how other figures are derived from them
(machines, memory, network and time).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

SETTINGS: Final = 1_000_000


def in_own_process(name: str, rounds: int) -> dict[str, float]:
    """Run a measurement in a new process, so that measurements do not affect each other."""
    command = [sys.executable, __file__, "--only", name, "--rounds", str(rounds)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def page(f: dict[str, float], machine: Sequence[str]) -> str:
    """Fill in the template of the page, tests/benchmarks/scale.md.

    Args:
        f: Figures of all measurements.
        machine: Lines that describe the machine.
    """
    from tests.benchmarks.scale_measures import STREAMS

    hop_s, layers_of_one = f["hop_32_kb_ms"] / 1e3, -(-f["layers"] // f["wafers"])
    derived = {
        "machine_gb": f["largest_wafer_gb"] + f["actor_mb"] / 1e3,
        "token_s": f["layers"] * f["layer_s"] + f["wafers"] * hop_s,
        "hops_s": f["wafers"] * hop_s,
        "bound_s": f["layers"] * f["layer_gb"] / (f["read_bytes_per_s"] / 1e9),
        "layers_of_one": layers_of_one,
        "slowest_s": layers_of_one * f["layer_s"] + hop_s,
        "minutes": f["largest_wafer_gb"] / f["stored_gb_per_s"] / 60,
        "core_hours": SETTINGS * f["setting_s"] / 3600,
        "days_on_64": SETTINGS * f["setting_s"] / 3600 / 24 / 64,
        "hours_on_1000": SETTINGS * f["setting_s"] / 3600 / 1000,
        "workers_gb": 64 * f["worker_mb"] / 1e3,
        "journal_gb": SETTINGS * f["row_kb"] / 1e6,
        "sweep_kb_per_s": 64 * f["row_kb"] / f["setting_s"],
    }
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return template.format(**f, **derived, streams=STREAMS, machine="\n".join(f"- {line}" for line in machine))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of one measurement as JSON (``--only``), or print or write the page."""
    from tests.benchmarks.growth import machine
    from tests.benchmarks.scale_measures import MEASURES
    from wse.backends.execute.step_times import read_bytes_per_s

    parser = argparse.ArgumentParser(description="Measure what large runs and sweeps need.")
    parser.add_argument("--only", choices=MEASURES, help="only this measurement; its figures are printed as JSON")
    parser.add_argument("--rounds", type=int, default=9, help="number of repetitions")
    parser.add_argument("--output", type=Path, help="file for the page, instead of printing it")
    asked = parser.parse_args(arguments)
    if asked.only is not None:
        with contextlib.redirect_stdout(sys.stderr):
            figures = MEASURES[asked.only](asked.rounds)
        sys.stdout.write(json.dumps(figures))
        return
    figures = {}
    for name in MEASURES:
        sys.stderr.write(f"{name}...\n")
        figures |= in_own_process(name, asked.rounds)
    rate = read_bytes_per_s(np.ones(2**26))
    text = page(figures | {"read_bytes_per_s": rate}, list(machine(rate)))
    if asked.output is None:
        sys.stdout.write(text)
    else:
        asked.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]
    main()
