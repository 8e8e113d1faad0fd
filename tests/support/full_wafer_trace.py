"""A trace as large as those of whole wafers: every PE, over a hundred thousand steps, several layers a region."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wse_traces import RunHeader, Token, TraceWriter
from wse_traces.schema import CAUSES, USES

OPS = ("attention_norm", "qkv", "attention", "output", "mlp_norm", "gate_up", "down", "residual")
NAMES = ("mesh_gemv", "two_phase_all_reduce", "multicast", "rms_norm", "softmax", "swiglu", "hand_over")
STEPS_AN_OP = 5
PE_BYTES = 48 * 1024


def write_full_wafer(
    path: Path,
    *,
    rows: int = 994,
    cols: int = 750,
    wafers: int = 3,
    layers: int = 96,
    regions: int = 4,
    schedules: int = 30,
    tokens: int = 500,
    slower: str = "",
    model: str = "synthetic-100B",
) -> Path:
    """Write it: ``regions`` side by side on each wafer, equally many layers in each, a schedule a length of the cache.

    Steps of the op ``slower`` take three times as long, which is for comparisons to find.
    """
    header = RunHeader(
        created_by="wse 0.1.0",
        model=model,
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
        used = np.tile([20_000, 18_000, 4_000, 2_500, 1_500, 0], (stages, 1))
        used[:, USES.index("weights")] += 8 * of_stage
        used[:, USES.index("free")] = PE_BYTES - used.sum(axis=1)
        first = of_stage * layers // stages
        last = (of_stage + 1) * layers // stages - 1
        place = {"wafer": of_stage // regions, "row": 0 * of_stage, "col": of_stage % regions * wide}
        size = {"rows": 0 * of_stage + rows, "cols": 0 * of_stage + wide}
        trace.append_sram(
            {**place, **size, "first_layer": first, "last_layer": last, "stage_bytes": used}, pe_bytes=PE_BYTES
        )
        op_layers = np.repeat(np.arange(layers), len(OPS))
        op_stages = np.searchsorted(last, op_layers)
        op_names = [f"layers.{layer}.{op}" for layer in range(layers) for op in OPS]
        trace.append("op", {"name": op_names, "kind": OPS * layers, "layer": op_layers, "stage": op_stages})
        trace.append("edge", {"src": np.arange(len(op_names) - 1), "dst": np.arange(1, len(op_names))})
        colours = np.repeat(of_stage, 20)
        area = {"wafer": colours // regions, "row": 0 * colours, "col": colours % regions * wide}
        trace.append(
            "route",
            {
                **area,
                "rows": 0 * colours + rows,
                "cols": 0 * colours + wide,
                "stage": colours,
                "colour": np.arange(len(colours)) % 20,
                "pattern": np.arange(len(colours)) % len(NAMES),
                "axis": np.arange(len(colours)) % 2,
            },
        )
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
        along, across = np.arange(rows)[:, np.newaxis], np.arange(cols) % wide
        pattern = np.zeros((4, rows, wide), np.int64)
        pattern[0], pattern[2] = 40 * along, 40 * (rows - 1 - along)
        pattern[1], pattern[3] = 16 * np.arange(wide), 16 * (wide - 1 - np.arange(wide))
        index = trace.append_pattern(pattern)
        of_layer = np.searchsorted(last, np.arange(layers))
        trace.append(
            "placed_layer",
            {
                "layer": np.arange(layers),
                "wafer": of_layer // regions,
                "row": 0 * of_layer,
                "col": of_layer % regions * wide,
                "pattern": 0 * of_layer + index,
            },
        )
        for wafer in range(wafers):
            words = np.zeros((4, rows, cols), np.int64)
            for stage in range(wafer * regions, (wafer + 1) * regions):
                left = stage % regions * wide
                words[:, :, left : left + wide] += pattern * int((of_layer == stage).sum())
            trace.append_plane("links/words", words)
            trace.append_plane("pe/busy_cycles", 10**9 + 1000 * along + across)
    return path
