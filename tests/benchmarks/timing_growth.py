"""Measure how the speed of the two timing models changes with the size of the mesh.

    python -m tests.benchmarks.timing_growth --section FILE

- The wavelet reference moves every word over every link, so its rate is hops of words per second.
- The fabric model counts the words on all links of a mesh at once, so its rate is links per second.

All rates are per second of processor time on one core. For each repetition, a line is fitted to the
logarithms of the rates over the logarithms of the numbers of PEs. Its slope is the exponent. The
table shows the median of the repetitions and their interquartile range.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tests.benchmarks.booksim import TRAFFIC, wavelet_hops
from tests.benchmarks.growth import filled_template
from tests.benchmarks.mesh_transfers import DIRECTIONS, transfers
from wse.backends.fabric.links.link_map import link_map

WAVELET_SIDES: Final = (8, 16, 32, 64)
FAST_SIDES: Final = (64, 128, 256, 512, 1024)
ROUNDS: Final = 5
FAST: Final = "fabric model"


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured rates of a timing model on several meshes.

    Attributes:
        name: Name of the model and of the traffic.
        unit: "hops/s" or "links/s".
        sides: PEs per side of each square mesh.
        per_s: Hops or links per second, [rounds, sides]. A round is one repetition on all meshes.
    """

    name: str
    unit: str
    sides: tuple[int, ...]
    per_s: np.ndarray

    def exponents(self) -> np.ndarray:
        """Return the exponent of each round, [rounds].

        The rate is proportional to the number of PEs to the power of the exponent. With 0, the rate
        is the same on all meshes.
        """
        pes = np.log(np.square(np.array(self.sides, float)))
        return np.polyfit(pes, np.log(self.per_s.T), 1)[0]


def measure(wavelet_sides: Sequence[int], fast_sides: Sequence[int], rounds: int) -> Iterator[Rates]:
    """Yield the rates of the wavelet reference for each kind of traffic, and of the fabric model.

    Args:
        wavelet_sides: PEs per side of the meshes for the wavelet reference.
        fast_sides: PEs per side of the meshes for the fabric model.
        rounds: Number of repetitions.
    """
    wavelet_hops(TRAFFIC[0], min(wavelet_sides), 1)  # compiles the kernels
    for traffic in TRAFFIC:
        rates = [[wavelet_hops(traffic, side, 1)[0] for side in wavelet_sides] for _ in range(rounds)]
        yield Rates(f"wavelet reference, {traffic}", "hops/s", tuple(wavelet_sides), np.array(rates))
    rates = [[links_per_s(side) for side in fast_sides] for _ in range(rounds)]
    yield Rates(FAST, "links/s", tuple(fast_sides), np.array(rates))


def links_per_s(side: int) -> float:
    """Return the number of links per second for which the fabric model counts words.

    The number of transfers is the same on every mesh.

    Args:
        side: PEs per side of the mesh.
    """
    rectangles = transfers(side, side, 1)
    began = time.process_time()
    link_map(rectangles, DIRECTIONS, side, side)
    seconds = time.process_time() - began
    return DIRECTIONS * side * side / seconds


def section(found: Sequence[Rates]) -> str:
    """Return the section about timing models in docs/performance.md: the filled template timing_growth.md."""
    rows = []
    for rates in found:
        slopes = np.quantile(rates.exponents(), (0.25, 0.5, 0.75))
        for index, side in enumerate(rates.sides):
            low, middle, high = np.quantile(rates.per_s[:, index], (0.25, 0.5, 0.75)) / 1e6
            slope = "" if index else f"{slopes[1]:+.2f} ({slopes[0]:+.2f} to {slopes[2]:+.2f})"
            rate, half = f"{middle:,.1f} M {rates.unit}", f"{low:,.1f} to {high:,.1f}"
            rows.append(f"| {rates.name} | {side}x{side} | {rate} | {half} | {slope} |")
    return filled_template(__file__, rows="\n".join(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both timing models, print the section, and write it to a file (``--section``)."""
    parser = argparse.ArgumentParser(description="Measure how the timing models grow with the mesh.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="number of repetitions on all meshes")
    parser.add_argument("--section", type=Path, help="file for the section of docs/performance.md")
    asked = parser.parse_args(arguments)
    text = section(list(measure(WAVELET_SIDES, FAST_SIDES, asked.rounds)))
    sys.stdout.write(text)
    if asked.section is not None:
        asked.section.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
