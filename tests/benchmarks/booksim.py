"""Compare the speed of the wavelet reference (cycle-by-cycle timing model) with BookSim2.

    python tests/benchmarks/booksim.py --booksim PATH --section booksim.md

Both simulate the same traffic on square meshes with routes along x first and then y. The rate is in
hops (a word moves over a link) per second of processor time.

- **Traffic**: with *neighbour*, every PE sends to the PE that is one further along both axes. At
  the ends of the mesh this wraps around, so some routes are long. With *uniform*, destinations are
  random: BookSim2 draws one for every packet, and the wavelet reference uses a fixed permutation.
- **BookSim2** (github.com/booksim/booksim2) has one virtual channel, queues of 8 flits and packets
  of one flit. Its load is a little below saturation, where its rate is highest.
- **Wavelet reference**: every PE has a colour (a number that selects a route) of its own, although
  a real wafer has only 24. Fixed routes are an easier problem than the channel allocation of BookSim2, so
  the ratio compares tools and not algorithms.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
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
MIN_WORDS, MAX_WORDS = 16, 2048
CONFIGURATION: Final = """
topology = mesh; k = {side}; n = 2; routing_function = dor; num_vcs = 1; vc_buf_size = 8; packet_size = 1;
traffic = {traffic}; injection_rate = {rate}; sim_type = latency; sample_period = {cycles}; warmup_periods = 1;
max_samples = 10; sim_count = 1; seed = 7;
"""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Rates of both simulators for one kind of traffic on one mesh.

    Attributes:
        traffic: "neighbour" or "uniform".
        side: PEs per side of the mesh.
        wavelets: Hops per second of the wavelet reference.
        booksim: Hops per second of BookSim2.
    """

    traffic: str
    side: int
    wavelets: float
    booksim: float


def destinations(traffic: str, side: int) -> I32:
    """Return the destination of every PE, int32 ``[PEs]``. No PE sends to itself."""
    pes = np.arange(side * side, dtype=np.int32)
    if traffic == "neighbour":
        return (pes // side + 1) % side * side + (pes + 1) % side
    order = np.random.default_rng(7).permutation(pes)
    found = np.empty_like(pes)
    found[order] = np.roll(order, 1)
    return found


def machine(traffic: str, side: int, words: int) -> WaveletMachine:
    """Return a simulated mesh in which every PE sends words to its destination.

    Args:
        traffic: "neighbour" or "uniform".
        side: PEs per side of the mesh.
        words: Words that each PE sends, on a colour (route) of its own. They are at address 0 of
            the sender and arrive at address ``words`` of the destination.
    """
    wafer, to = load_wafer("wse2"), destinations(traffic, side)
    made = WaveletMachine(replace(wafer, colours=len(to) + wafer.reserved_colours), side, side, 2 * words)
    for pe, target in enumerate(to.tolist()):
        row, col, end_row, end_col = *divmod(pe, side), *divmod(target, side)
        horizontal, vertical = Port.EAST if end_col > col else Port.WEST, Port.SOUTH if end_row > row else Port.NORTH
        steps = [horizontal] * abs(end_col - col) + [vertical] * abs(end_row - row)
        source, at = Port.RAMP, pe
        for step in steps:
            made.route(at, pe, SwitchPosition(source, (step,)))
            at += {Port.EAST: 1, Port.WEST: -1, Port.SOUTH: side, Port.NORTH: -side}[step]
            source = step.opposite
        made.route(at, pe, SwitchPosition(source, (Port.RAMP,)))
        made.operate(pe, 0, Operation(send=pe, words=words))
        made.operate(target, 1, Operation(receive=pe, address=words, words=words))
    return made


def distance(traffic: str, side: int) -> float:
    """Return the average number of links between a PE and its destination."""
    to, pes = destinations(traffic, side), np.arange(side * side)
    return float((abs(to // side - pes // side) + abs(to % side - pes % side)).mean())


def wavelet_hops(traffic: str, side: int, repeats: int) -> tuple[float, int]:
    """Measure the wavelet reference.

    Args:
        traffic: "neighbour" or "uniform".
        side: PEs per side of the mesh.
        repeats: Number of runs.

    Returns:
        Hops per second of the fastest run, and the number of hops of a run.
    """
    words = int(np.clip(HOPS / side**2 / distance(traffic, side), MIN_WORDS, MAX_WORDS))
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
    """Run BookSim2 and return its hops per second of processor time.

    The number of hops is the number of flits that arrived times (mean number of routers - 1).

    Args:
        program: Path of the executable.
        traffic: "neighbour" or "uniform".
        side: PEs per side of the mesh.

    Raises:
        RuntimeError: BookSim2 printed no overall statistics.
    """
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
            printed_text = printed.read()
    numbers = [re.findall(pattern, printed_text) for pattern in (r"Time taken is (\d+)", r"Hops average = ([\d.]+)")]
    accepted = re.findall(r"Accepted flit rate average = ([\d.]+)", printed_text)
    if not (accepted and all(numbers)):
        message = (
            f"{program}: {traffic} on {side}x{side}: status {status}, no overall statistics; "
            f"it printed {printed_text[-200:]}"
        )
        raise RuntimeError(message)
    time_cycles, routers = (float(found[-1]) for found in numbers)
    return float(accepted[-1]) * side**2 * time_cycles * (routers - 1) / usage.ru_utime


def pairs(program: Path, sides: Sequence[int], repeats: int) -> Iterator[Pair]:
    """Measure both simulators, and yield a pair of rates for each kind of traffic and mesh.

    Args:
        program: Path of the executable of BookSim2.
        sides: PEs per side of each mesh.
        repeats: Number of runs of the wavelet reference.
    """
    for traffic in TRAFFIC:
        for side in sides:
            found, _ = wavelet_hops(traffic, side, repeats)
            yield Pair(traffic=traffic, side=side, wavelets=found, booksim=booksim_hops(program, traffic, side))


def section(found: Sequence[Pair]) -> str:
    """Return the section about BookSim2 in docs/performance.md: the filled template booksim.md."""
    rows = []
    for one in found:
        ours, theirs = f"{one.wavelets / 1e6:.1f} M", f"{one.booksim / 1e6:.2f} M"
        ratio = f"{one.wavelets / one.booksim:.0f}"
        rows.append(f"| {one.traffic} | {one.side}x{one.side} | {ours} | {theirs} | {ratio} |")
    return Path(__file__).with_suffix(".md").read_text(encoding="utf-8").format(rows="\n".join(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare both simulators and print the section. With options, write it or JSON to files."""
    parser = argparse.ArgumentParser(description="Compare the speed of the wavelet reference with BookSim2.")
    parser.add_argument("--booksim", type=Path, required=True, help="the executable of BookSim2")
    parser.add_argument("--sides", default=",".join(map(str, SIDES)), help="PEs per side of each mesh")
    parser.add_argument("--repeats", type=int, default=3, help="runs of the wavelet reference; the fastest one counts")
    parser.add_argument("--json", type=Path, help="file for the rates")
    parser.add_argument("--section", type=Path, help="file for the section of docs/performance.md")
    asked = parser.parse_args(arguments)
    found = []
    for one in pairs(asked.booksim, [int(side) for side in asked.sides.split(",")], asked.repeats):
        sys.stderr.write(f"{one}\n")
        found.append(one)
    text = section(found)
    sys.stdout.write(text)
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")
    if asked.section is not None:
        asked.section.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
