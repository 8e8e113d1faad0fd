"""Measure how the speed of the two timing models depends on the size of the mesh.

    python -m tests.benchmarks.timing_growth --section FILE

The wavelet reference moves every word over every link, so its rate is in hops per second. The
fabric model counts the words of all transfers on all links at once, so its rate is in links per
second. The exponent is the slope of a line that is fitted to the logarithms of the rates over
those of the numbers of PEs. The table shows the median of all rounds and the range of their
middle half. All times are processor times of one core.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tests.benchmarks.booksim import TRAFFIC, wavelet_hops
from wse.arrays import I64
from wse.backends.fabric.links.link_map import link_map, rectangles_of

WAVELET_SIDES: Final = (8, 16, 32, 64)
FAST_SIDES: Final = (64, 128, 256, 512, 1024)
ROUNDS: Final = 5
FAST: Final = "fabric model"
DIRECTIONS: Final = 5
"""North, east, south, west and the ramp."""
TRANSFERS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a timing model in hops or links per second, ``[rounds, sides]``."""

    name: str
    unit: str
    sides: tuple[int, ...]
    per_s: np.ndarray

    def exponents(self) -> np.ndarray:
        """Return the exponent of each round; 0 means that a link costs the same on every mesh."""
        pes = np.log(np.square(np.array(self.sides, float)))
        return np.polyfit(pes, np.log(self.per_s.T), 1)[0]


def measure(wavelet_sides: Sequence[int], fast_sides: Sequence[int], rounds: int) -> Iterator[Rates]:
    """Yield the rates of the wavelet reference for each kind of traffic, then those of the fabric model."""
    wavelet_hops(TRAFFIC[0], min(wavelet_sides), 1)  # compiles the kernel
    for traffic in TRAFFIC:
        rates = [[wavelet_hops(traffic, side, 1)[0] for side in wavelet_sides] for _ in range(rounds)]
        yield Rates(f"wavelet reference, {traffic}", "hops/s", tuple(wavelet_sides), np.array(rates))
    rates = [[links_per_s(side) for side in fast_sides] for _ in range(rounds)]
    yield Rates(FAST, "links/s", tuple(fast_sides), np.array(rates))


def links_per_s(side: int) -> float:
    """Return the number of links per second whose words the fabric model counts on a square mesh."""
    rectangles = transfers(side)
    began = time.process_time()
    link_map(rectangles, DIRECTIONS, side, side)
    seconds = time.process_time() - began
    return DIRECTIONS * side * side / seconds


def transfers(side: int) -> I64:
    """Return the link rectangles of random transfers, the same number for every mesh.

    Half of the transfers are multicasts along rows, which load two segments of links. The others are
    shifts, which load one. Both load the ramps of all their PEs.
    """
    random = np.random.default_rng(11)
    found = []
    for number in range(TRANSFERS):
        top, end = np.sort(random.integers(0, side + 1, 2))
        left, right = np.sort(random.integers(0, side + 1, 2))
        words = int(random.integers(1, 4097))
        if number % 2:
            root = int(random.integers(left, right + 1))
            found.append((1, top, end, root, right, words))
            found.append((3, top, end, left, root, words))
        else:
            found.append((number % 4, top, end, left, right, words))
        found.append((4, top, end, left, right, words))
    return rectangles_of(*np.array(found, np.int64).T)


def section(found: Sequence[Rates]) -> Iterator[str]:
    """Yield the lines of a section of docs/performance.md."""
    yield from ("## How the timing models grow", "")
    yield "`python -m tests.benchmarks.timing_growth` measures the speed of both timing models of wse on one core. The"
    yield "table shows the median of several repetitions and the range of their middle half:"
    yield from ("", "- wavelet reference: hops of words over links per second")
    yield "- fabric model: links and ramps whose words are counted, per second"
    yield from ("", "The exponent in the last column says how the rate changes with the number of PEs. With an")
    yield "exponent of 0, a link costs the same time on every mesh; with a negative one, it costs more on larger"
    yield "meshes."
    yield from ("", "| model | mesh | rate | middle half | exponent |", "|---|---|---:|---:|---:|")
    for rates in found:
        slopes = np.quantile(rates.exponents(), (0.25, 0.5, 0.75))
        for index, side in enumerate(rates.sides):
            low, middle, high = np.quantile(rates.per_s[:, index], (0.25, 0.5, 0.75)) / 1e6
            slope = "" if index else f"{slopes[1]:+.2f} ({slopes[0]:+.2f} to {slopes[2]:+.2f})"
            rate, half = f"{middle:,.1f} M {rates.unit}", f"{low:,.1f} to {high:,.1f}"
            yield f"| {rates.name} | {side}x{side} | {rate} | {half} | {slope} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the timing models on meshes of several sizes.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repetitions on all meshes")
    parser.add_argument("--section", type=Path, help="write a section of docs/performance.md to this file")
    asked = parser.parse_args(arguments)
    text = "\n".join((*section(list(measure(WAVELET_SIDES, FAST_SIDES, asked.rounds))), ""))
    sys.stdout.write(text)
    if asked.section is not None:
        asked.section.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
