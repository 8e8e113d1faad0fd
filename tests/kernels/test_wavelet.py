"""Tests of the wavelet kernel: it equals its oracle on machines with mixed patterns, colours and directions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.helpers import EXAMPLES
from wse.backends.wavelet.flatten import tables
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import WaveletMachine
from wse.hardware.load import load_wafer
from wse_kernels.library import compiled_kernel
from wse_kernels.operands import wavelet_tables as columns
from wse_kernels.oracle import wavelet as oracle
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.rings import ring_shift
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

LIMIT = 100_000


def patterns(length: int, arrival: Arrival) -> list[LineSchedule]:
    """Return one schedule of each pattern on lines of ``length`` PEs."""
    return [
        chain(length, 9, arrival),
        star(length, 9, arrival),
        two_phase(length, 9, arrival),
        binary_tree(length, 9, arrival),
        k_tree(length, 9, arrival, broadcast=True),
        multicast(length, 9, length // 2),
        ring_shift(length, 9),
    ]


@given(
    wafer=st.sampled_from(["wse2", "wse3"]),
    rows=st.integers(1, 3),
    cols=st.integers(2, 7),
    pattern_indices=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    arrival=st.sampled_from([Arrival.ADD, Arrival.MAX, Arrival.ARGMAX]),
    pairs=st.integers(1, 6),
    gap=st.integers(0, 20),
    relay=st.sampled_from([0, 1, 17]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_kernel_and_oracle_agree(
    wafer: str,
    rows: int,
    cols: int,
    pattern_indices: list[int],
    arrival: Arrival,
    pairs: int,
    gap: int,
    relay: int,
    seed: int,
) -> None:
    words = 2 * pairs
    machine = WaveletMachine(load_wafer(wafer), rows, cols, 2 * words)
    lines, colour = Lines(machine=machine, gap_cycles=gap, relay_cycles=relay), 0
    for i in pattern_indices:
        if colour <= 12:
            across = i % 2 and rows > 1
            schedule = patterns(rows if across else cols, arrival)[i]
            target = words if i >= 5 else 0
            colour = lines.rows(schedule, words, target=target, colour=colour, transposed=bool(across))
    memory = np.random.default_rng(seed).integers(-3, 4, rows * cols * 2 * words).astype(np.float32)
    outcomes = []
    rate = machine.wafer.stream_words_per_cycle
    for function in (compiled_kernel("run_wavelets").serial, oracle.run_wavelets):
        table, final_memory, counts = tables(machine, shuffle=seed), memory.copy(), np.zeros(2, np.int64)
        burst = 0 if rate == 1 else 8
        function(table.kernel_tables(final_memory), table.spans, np.zeros((0, 3), np.int32), counts, burst, LIMIT)
        assert (table.times >= 0).all()
        state = table.queues[:, [columns.HEAD, columns.TAIL]]
        outcomes.append((state, table.links, table.threads, table.times, final_memory, table.spans, counts[0]))
    for got, want in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(got, want)
