"""Compare the speed of the wavelet reference with that of BookSim2 (github.com/booksim/booksim2).

    python tests/benchmarks/booksim.py --booksim PATH --section booksim.md

Both simulate the same traffic on square meshes, with routes along x and then y. The speed is the
number of hops of words over links per second of processor time on one core.

- *neighbour*: every PE sends to the PE that is one further along both axes. Destinations wrap
  around the ends of the mesh, so some routes are long.
- *uniform*: destinations are random. BookSim2 draws one for every packet; here every PE has one
  destination, and no two PEs have the same.

BookSim2 has one virtual channel, queues of 8 flits and packets of one flit. Its load is slightly
below saturation, where it simulates the most hops per second. BookSim2 allocates channels during
the simulation. Here every PE has its own colour and a static route, which is an easier problem, so
the ratio compares tools rather than algorithms.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from wse.arrays import I32
from wse.backends.wavelet.flatten import tables
from wse.backends.wavelet.machine import Operation, Port, SwitchPosition, WaveletMachine
from wse.backends.wavelet.run import execute
from wse.hardware.load import load_wafer
from wse_kernels.operands import wavelet_tables as columns

SIDES: Final = (8, 16, 32, 64, 128)
TRAFFIC: Final = ("neighbour", "uniform")
HOPS: Final = 4_000_000
LEAST_WORDS, MAX_WORDS = 16, 2048
CONFIGURATION: Final = """
topology = mesh; k = {side}; n = 2; routing_function = dor; num_vcs = 1; vc_buf_size = 8; packet_size = 1;
traffic = {traffic}; injection_rate = {rate}; sim_type = latency; sample_period = {cycles}; warmup_periods = 1;
max_samples = 10; sim_count = 1; seed = 7;
"""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Hops per second of the wavelet reference and of BookSim2 on one mesh."""

    traffic: str
    side: int
    wavelets: float
    booksim: float


def destinations(traffic: str, side: int) -> I32:
    """Return the destination of every PE, int32 ``[PEs]``; no PE sends to itself."""
    pes = np.arange(side * side, dtype=np.int32)
    if traffic == "neighbour":
        return (pes // side + 1) % side * side + (pes + 1) % side
    order = np.random.default_rng(7).permutation(pes)
    found = np.empty_like(pes)
    found[order] = np.roll(order, 1)
    return found


def machine(traffic: str, side: int, words: int) -> WaveletMachine:
    """Return a machine on which every PE sends ``words`` words to its destination on its own colour."""
    wafer, to = load_wafer("wse2"), destinations(traffic, side)
    made = WaveletMachine(replace(wafer, colours=len(to) + wafer.reserved_colours), side, side, 2 * words)
    for pe, target in enumerate(to.tolist()):
        row, col, end_row, end_col = *divmod(pe, side), *divmod(target, side)
        sideways, down = Port.EAST if end_col > col else Port.WEST, Port.SOUTH if end_row > row else Port.NORTH
        ways = [sideways] * abs(end_col - col) + [down] * abs(end_row - row)
        source, at = Port.RAMP, pe
        for way in ways:
            made.route(at, pe, SwitchPosition(source, (way,)))
            at += {Port.EAST: 1, Port.WEST: -1, Port.SOUTH: side, Port.NORTH: -side}[way]
            source = way.opposite
        made.route(at, pe, SwitchPosition(source, (Port.RAMP,)))
        made.operate(pe, 0, Operation(send=pe, words=words))
        made.operate(target, 1, Operation(receive=pe, address=words, words=words))
    return made


def distance(traffic: str, side: int) -> float:
    """Return the mean number of links on the route of a word."""
    to, pes = destinations(traffic, side), np.arange(side * side)
    return float((abs(to // side - pes // side) + abs(to % side - pes % side)).mean())


def wavelet_hops(traffic: str, side: int, repeats: int) -> tuple[float, int]:
    """Return the hops per second of the wavelet reference (best of all runs) and the hops of one run."""
    words = int(np.clip(HOPS / side**2 / distance(traffic, side), LEAST_WORDS, MAX_WORDS))
    made, best, hops = machine(traffic, side, words), 0.0, 0
    for _ in range(repeats):
        table = tables(made)
        memory = np.zeros(made.rows * made.cols * made.memory_words, np.float32)
        began = time.process_time()
        execute(made, table, memory, 1)
        seconds = time.process_time() - began
        hops = int(table.queues[table.identity[:, 1] < Port.RAMP, columns.TAIL].sum())
        best = max(best, hops / seconds)
    return best, hops


def booksim_hops(program: Path, traffic: str, side: int) -> float:
    """Return the hops per second of BookSim2: arrived flits times the routers that each passed after the first."""
    rate = 0.25 if traffic == "neighbour" else 0.8 / side
    cycles = max(100, round(HOPS / 8 / (side**2 * rate * distance(traffic, side))))
    text = CONFIGURATION.format(side=side, traffic=traffic.replace("neighbour", "neighbor"), rate=rate, cycles=cycles)
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "mesh"
        configuration.write_text(text)
        with (Path(folder) / "printed").open("w+") as printed:
            process = subprocess.Popen([program, configuration], stdout=printed, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            printed.seek(0)
            said = printed.read()
    numbers = [re.findall(pattern, said) for pattern in (r"Time taken is (\d+)", r"Hops average = ([\d.]+)")]
    accepted = re.findall(r"Accepted flit rate average = ([\d.]+)", said)
    if not (accepted and all(numbers)):
        message = (
            f"{program}: {traffic} on {side}x{side}: status {status}, no overall statistics; it printed {said[-200:]}"
        )
        raise RuntimeError(message)
    time_cycles, routers = (float(found[-1]) for found in numbers)
    return float(accepted[-1]) * side**2 * time_cycles * (routers - 1) / usage.ru_utime


def pairs(program: Path, sides: Sequence[int], repeats: int) -> Iterator[Pair]:
    """Yield the speeds of both simulators for each kind of traffic and each mesh."""
    for traffic in TRAFFIC:
        for side in sides:
            found, _ = wavelet_hops(traffic, side, repeats)
            yield Pair(traffic=traffic, side=side, wavelets=found, booksim=booksim_hops(program, traffic, side))


def section(found: Sequence[Pair]) -> Iterator[str]:
    """Yield the lines of a section of docs/performance.md."""
    yield from ("## Wavelet reference compared with BookSim2", "")
    yield "`python tests/benchmarks/booksim.py` simulates the same traffic with the cycle-by-cycle wavelet reference"
    yield "and with BookSim2, a simulator of networks on chips. Rates are hops of words over links per second on one"
    yield "core. The ratio compares tools rather than algorithms: BookSim2 allocates virtual channels during the"
    yield "simulation, while the reference has the easier problem of fixed colours."
    yield from ("", "| traffic | mesh | wavelet reference | BookSim2 | ratio |", "|---|---|---:|---:|---:|")
    for one in found:
        ours, theirs = f"{one.wavelets / 1e6:.1f} M", f"{one.booksim / 1e6:.2f} M"
        yield f"| {one.traffic} | {one.side}x{one.side} | {ours} | {theirs} | {one.wavelets / one.booksim:.0f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare the wavelet reference with BookSim2.")
    parser.add_argument("--booksim", type=Path, required=True, help="the program BookSim2")
    parser.add_argument("--sides", default=",".join(map(str, SIDES)), help="sides of the meshes")
    parser.add_argument("--repeats", type=int, default=3, help="runs of the wavelet reference; the best counts")
    parser.add_argument("--section", type=Path, help="write a section of docs/performance.md to this file")
    asked = parser.parse_args(arguments)
    found = []
    for one in pairs(asked.booksim, [int(side) for side in asked.sides.split(",")], asked.repeats):
        sys.stderr.write(f"{one}\n")
        found.append(one)
    text = "\n".join((*section(found), ""))
    sys.stdout.write(text)
    if asked.section is not None:
        asked.section.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
