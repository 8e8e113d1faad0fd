"""Fixtures: a small trace in which no table is empty, written through the public API like the trace of a run."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from wse_traces import RunHeader, Token, TraceWriter

HEADER = RunHeader(
    created_by="wse 0.0",
    model="toy <script>",
    wafer="wse2",
    mapping="region",
    seed=7,
    program_digest="ab" * 16,
    wafers=2,
    rows=6,
    cols=5,
    clock_hz=850e6,
    options={"prompt": "Once", "mesh": [6, 5]},
    versions={"numpy": np.__version__},
)
PROMPT, GENERATED = 3, 9
SLOTS = 4  # after this many decoded tokens, one more KV slot per PE is used and the decode schedule changes
HOPS = 20  # hops per cycle of a step
SHIFTED = [3, 5, 7]  # words of the cache shifts, which are stored per pass
TEXTS = ["Once", " upon", " a", " t", "ime", " \xe9", "!"]


def steps(n: int, *, scale: int) -> dict[str, np.ndarray]:
    """Return the columns of ``n`` sequential steps, of ``scale``, 2 * ``scale``, 3 * ``scale``, ... cycles."""
    cycles = scale * np.arange(1, n + 1)
    cycles_by = np.stack([cycles // 3, *[0 * cycles] * 4, cycles - cycles // 3], axis=1)
    ones = np.ones(n, int)
    return {
        "op": np.arange(n) % 3,
        "stage": ones * 0,
        "layer": np.arange(n) - 1,
        "wafer": ones * 0,
        "kind": np.arange(n) % 3,
        "name": np.arange(n) % 2,
        "start_cycle": np.cumsum(cycles) - cycles,
        "cycles": cycles,
        "cycles_by": cycles_by,
        "words": cycles * 2,
        "hops": cycles * HOPS,
        "row": ones * 0,
        "col": ones * 1,
        "rows": ones * 6,
        "cols": ones * 4,
    }


def moves(start: int) -> dict[str, list[int]]:
    """Return the moves of a word from PE (1, 0) to the east, into PE (1, 1) and to the south, from cycle ``start``."""
    path = {"cycle": [0, 1, 1], "row": [1, 1, 1], "col": [0, 1, 1], "direction": [1, 4, 2]}
    path["cycle"] = [start + cycle for cycle in path["cycle"]]
    return {**path, "pass": [1] * 3, "step": [2] * 3, "wafer": [1] * 3, "colour": [5] * 3}


def write_placement(trace: TraceWriter) -> None:
    """Write the tables that are known before a run: names, stages, ops, buffers and routes."""
    names = trace.append_names(["matmul_tile", "all_reduce", "matmul_tile"])
    assert names.tolist() == [0, 1, 0]
    trace.append_sram(
        {
            "wafer": [0, 1],
            "row": [0, 1],
            "col": [1, 0],
            "rows": [6, 2],
            "cols": [4, 3],
            "first_layer": [0, 2],
            "last_layer": [1, 3],
            "stage_bytes": [[100, 200, 300, 0, 50, 350], [100, 0, 0, 0, 0, 900]],
        },
        pe_bytes=1000,
    )
    trace.append("attention", {"stage": [0, 1], "col": [2, 0], "cols": [2, 3]})
    trace.append(
        "op", {"name": ["embed", "mlp", "é"], "kind": ["a", "b", "c"], "layer": [-1, 0, 1], "stage": [0, 0, 1]}
    )
    trace.append("edge", {"src": [0, 1], "dst": [1, 2]})
    buffer = {"name": ["w"], "use": [1], "address": [64], "bytes": [200], "dtype": ["float16"]}
    trace.append("buffer", {**buffer, "stage": [0], "live_from": [-1], "live_to": [2]})
    trace.append("live", {"buffer": [0, 0], "phase": [0, 1], "first_step": [0, 1], "last_step": [2, 1]})
    route = {"row": [0], "col": [1], "rows": [6], "cols": [4], "wafer": [0]}
    trace.append("route", {**route, "stage": [0], "colour": [3], "pattern": [1], "axis": [0]})


def write(path: Path, header: RunHeader = HEADER, *, generated: int = GENERATED, texts: Sequence[str] = TEXTS) -> Path:
    """Write the trace of a prompt and some generated tokens, with rows in every table; return its path."""
    with TraceWriter(path, header) as trace:
        write_placement(trace)
        clock = 0
        last = trace.append_schedule(steps(8, scale=10), phase="prefill", kv_slots=1)
        run = trace.append_pass(schedule=last, start_cycle=clock, wall_s=0.5)
        clock += 360
        for position in range(PROMPT + generated):
            text = texts[position % len(texts)].encode()
            prompt = position < PROMPT
            if position > PROMPT:
                if (position - PROMPT) % SLOTS == 1:
                    slots = 2 + position // SLOTS
                    last = trace.append_schedule(steps(5, scale=slots), phase="decode", kv_slots=slots)
                    cycles = 15 * slots
                run = trace.append_pass(schedule=last, start_cycle=clock, wall_s=0.1)
                clock += cycles
            trace.append_tokens(
                Token(
                    token_id=100 + position,
                    text=text,
                    is_prompt=prompt,
                    pass_index=run,
                    position=position,
                    cycles=0 if prompt else 360 if position == PROMPT else cycles,
                    wall_s=0.0 if prompt else 0.1,
                )
            )
            crossing = {"pass": [run], "src_wafer": [-1], "dst_wafer": [0], "bytes": [4], "cycles": [9]}
            trace.append("crossing", crossing)
        trace.append("shift", {"pass": [2, 2, run], "step": [0, 3, 0], "words": SHIFTED, "hops": SHIFTED})
        other_words = [np.arange(4 * 6 * 5).reshape(4, 6, 5) + wafer for wafer in range(2)]
        other_words[0][0, 0, 0] += clock * HOPS + sum(SHIFTED) - sum(words.sum() for words in other_words)
        for wafer in range(2):
            trace.append_plane("links/words", other_words[wafer].copy())
            trace.append_plane("pe/busy_cycles", np.full((6, 5), 2**40 + wafer))
        for row in (2, 4):
            other_words[0][:, row : row + 2, 1:4] -= 1
        patterns = [trace.append_pattern(words) for words in (np.ones((4, 2, 3), int), *other_words)]
        placed = {"layer": [0, 1, -1, -1], "wafer": [0, 0, 0, 1], "row": [2, 4, 0, 0], "col": [1, 1, 0, 0]}
        trace.append("placed_layer", {**placed, "pattern": [patterns[0], *patterns]})
        trace.append("routed", {"pass": [0, 1], "layer": [0, 0], "expert": [1, 0], "tokens": [7, 5]})
        trace.append("expert_load", {"layer": [0, 0], "expert": [0, 1], "tokens": [5, 7]})
        trace.append_tensor(np.arange(6, dtype="float32").reshape(2, 3), pass_index=0, op=1)
        trace.append_tensor(np.arange(4, dtype="float16"), pass_index=0, op=2)
        for index, value in enumerate((3, 4)):
            trace.append_content(np.full(200, value), pass_index=index, buffer=0, pe=(0, 2, 1))
        for start in (0, 4):
            trace.append("wavelet", moves(start))
            trace.append("wavelet_source", {"source": [4, 3, 3]})
        trace.write_summary({"text": "é", "decode": {"cycles_per_token": 12}})
    return path


@pytest.fixture
def header() -> RunHeader:
    """Return the header of the small trace."""
    return HEADER


@pytest.fixture
def write_sample() -> Callable[..., Path]:
    """Return a function that writes the small trace to a path."""
    return write


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the small trace, which tests must not change."""
    return write(tmp_path_factory.mktemp("sample") / "sample.h5")


@pytest.fixture
def copy(sample, tmp_path):
    """Return the path of a copy of the small trace, which a test may change."""
    return shutil.copy(sample, tmp_path / "copy.h5")
