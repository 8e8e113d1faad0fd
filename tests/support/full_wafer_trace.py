"""A trace of wafers with several regions each, and several layers a region."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wse_traces import RunHeader, Token, TraceWriter
from wse_traces.schema import CAUSES

OPS = ("attention_norm", "qkv", "attention", "output", "mlp_norm", "gate_up", "down", "residual")
NAMES = ("mesh_gemv", "two_phase_all_reduce", "multicast", "rms_norm", "softmax", "swiglu", "hand_over")
STEPS_AN_OP = 5


def write_full_wafer(
    path: Path,
    *,
    rows: int,
    cols: int,
    wafers: int,
    layers: int,
    regions: int,
    schedules: int,
    tokens: int,
    slower: str = "",
) -> Path:
    """Write it: ``regions`` side by side on each wafer, equally many layers in each, a schedule a length of the cache.

    Steps of the op ``slower`` take three times as long, which is for comparisons to find.
    """
    header = RunHeader(
        created_by="wse 0.1.0",
        model="synthetic",
        wafer="wse3",
        mapping="region",
        seed=0,
        program_digest="c0ffee" * 10,
        wafers=wafers,
        rows=rows,
        cols=cols,
        clock_hz=875e6,
        options={"dtype": "float16", "software": "production", "context": 4096},
        versions={"wse": "0.1.0", "numpy": np.__version__},
    )
    stages, wide = wafers * regions, cols // regions
    of_stage = np.arange(stages)
    draw = np.random.default_rng(7)
    with TraceWriter(path, header) as trace:
        names = trace.append_names(NAMES)
        last = (of_stage + 1) * layers // stages - 1
        op_layers = np.repeat(np.arange(layers), len(OPS))
        op_stages = np.searchsorted(last, op_layers)
        op_names = [f"layers.{layer}.{op}" for layer in range(layers) for op in OPS]
        trace.append("op", {"name": op_names, "kind": OPS * layers, "layer": op_layers, "stage": op_stages})
        step_op = np.repeat(np.arange(len(op_names)), STEPS_AN_OP)
        made = []
        for number in range(schedules):
            cycles_by = draw.integers(100, 900, (len(step_op), len(CAUSES))) * (1 + number // 8)
            cycles_by[:, CAUSES.index("host")] = 0
            if slower:
                cycles_by[np.array([name.endswith(slower) for name in op_names])[step_op]] *= 3
            cycles = cycles_by.sum(axis=1)
            at = op_stages[step_op]
            steps = {
                "op": step_op,
                "stage": at,
                "layer": op_layers[step_op],
                "wafer": at // regions,
                "kind": np.arange(len(step_op)) % STEPS_AN_OP % 2,
                "name": names[np.arange(len(step_op)) % len(NAMES)],
                "start_cycle": np.cumsum(cycles) - cycles,
                "cycles": cycles,
                "cycles_by": cycles_by,
                "words": cycles * 7,
                "hops": cycles * 70,
                "row": 0 * at,
                "col": at % regions * wide,
                "rows": 0 * at + rows,
                "cols": 0 * at + wide,
            }
            phase = "prefill" if number < 4 else "decode"
            made.append((trace.append_schedule(steps, phase=phase, kv_slots=number), int(cycles.sum())))
        clock = 0
        for position in range(tokens):
            chunk = min(position, 3) if position < 4 else 4 + (position - 4) * (schedules - 4) // max(1, tokens - 4)
            schedule, cycles = made[chunk]
            run = trace.append_pass(schedule=schedule, start_cycle=clock, wall_s=0.0)
            clock += cycles
            trace.append_tokens(
                Token(token_id=-1, text=b"", is_prompt=position < 4, pass_index=run, position=position, cycles=cycles)
            )
    return path
