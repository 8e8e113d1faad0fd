"""A run written down as a trace: the Program and its mapping at the start, passes and tokens as they happen."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import wse
from wse.errors import BadTrace
from wse.fabric.causes import CAUSES
from wse.fabric.layer_links import layer_links
from wse.fabric.phase_cost import CacheUse, PhaseCost
from wse.fabric.routed import Pairs
from wse.instructions import KERNELS
from wse.phase import Kind
from wse.program import Program
from wse.studies.clock import Clock
from wse.studies.expert_load import ExpertLoad
from wse.studies.record_experts import ExpertRecord
from wse.studies.record_links import write_layer_links
from wse.studies.record_program import write_program
from wse.studies.request import Prepared
from wse_traces.schema import RunHeader
from wse_traces.write import TraceWriter

TRANSFER_NAMES = {Kind.CACHE_SHIFT: "cache_shift", Kind.HAND_OVER: "hand_over", Kind.CROSS: "cross"}
KIND_CODES = {Kind.COMPUTE: 0, Kind.LINE: 1, Kind.CACHE_SHIFT: 1, Kind.HAND_OVER: 1, Kind.CROSS: 2, Kind.WAFERS: 2}


def check_trace_path(path: Path) -> None:
    """Refuse a path where no trace can be written, before anything long is done; nothing is written.

    Raises:
        BadTrace: the folder is missing or cannot be written, or the path is something else than a file.
    """
    try:
        folder, name = path.parent, path.name
        if not folder.is_dir():
            reason = f"{folder} is no folder"
        elif (path.exists() and not path.is_file()) or not name:
            reason = "it is not a regular file"
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = f"the folder {folder} may not be written"
        else:
            return
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
    message = f"--trace {path}: cannot be written: {reason}; give another path with --trace, or --trace none"
    raise BadTrace(message)


class Recorder:
    """Writes one run. Use as a context manager, as TraceWriter is."""

    def __init__(self, path: Path, prepared: Prepared, program: Program, digest: str) -> None:
        """Raises TraceError when the path cannot be written."""
        self._program = program
        self._schedules: dict[tuple[int, int, tuple[int, ...], bytes], int] = {}
        self._runs: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
        rows, cols = prepared.fabric_shape[::-1] if program.turned else prepared.fabric_shape
        self._busy = np.zeros((program.wafers, rows, cols), np.int64)
        header = RunHeader(
            created_by=f"wse {wse.__version__}",
            model=_encodable(program.model_name),
            wafer=program.wafer_name,
            mapping=program.mapping_name,
            seed=prepared.request.sampling.seed,
            program_digest=digest,
            wafers=program.wafers,
            rows=rows,
            cols=cols,
            clock_hz=prepared.wafer.clock_hz,
            options={**_options(prepared), **_defects(prepared, program)},
            versions={"wse": wse.__version__, "numpy": np.__version__},
        )
        self.writer = TraceWriter(path, header)
        self._experts = ExpertRecord(self.writer, program)
        write_program(self.writer, program, prepared.wafer.sram_bytes_per_pe)

    def __enter__(self) -> Recorder:
        self.writer.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self.writer.__exit__(*details)

    def prompt(self, user: int, ids: tuple[int, ...], texts: list[bytes], passes: list[int]) -> None:
        """The tokens of a user's prompt, each with the pass that read it, once its chunks have run."""
        for position, (token, text, index) in enumerate(zip(ids, texts, passes, strict=True)):
            self.writer.append_token(
                token_id=token, text=text, is_prompt=True, pass_index=index, position=position, sequence=user
            )

    def passed(
        self, phase_index: int, key: CacheUse, cost: PhaseCost, pairs: Pairs, start: float, wall_s: float
    ) -> int:
        """One run of a phase, whose tokens chose experts as ``pairs`` says; its index among the passes."""
        routed = self._program.phases[phase_index].routed.any()
        chosen = b"".join(tokens.tobytes() for tokens in pairs.values()) if routed else b""
        same = (phase_index, *key, chosen)
        schedule = self._schedules.get(same)
        if schedule is None:
            schedule = self._schedules[same] = self._write_schedule(phase_index, key, cost)
        index = self.writer.append_pass(schedule=schedule, start_cycle=int(start), wall_s=wall_s)
        self._runs[phase_index, *key] += 1
        self._write_crossings(phase_index, cost, index)
        self._count_busy(phase_index, cost)
        self._experts.passed(phase_index, index, pairs)
        return index

    def token(
        self, user: int, token: int, text: bytes, pass_index: int, position: int, cycles: float, wall_s: float
    ) -> None:
        """One generated token."""
        self.writer.append_token(
            token_id=token,
            text=text,
            is_prompt=False,
            pass_index=pass_index,
            position=position,
            sequence=user,
            cycles=int(cycles),
            wall_s=wall_s,
        )

    def finish(self, clock: Clock, load: ExpertLoad, summary: dict[str, Any]) -> None:
        """Totals by link, by layer and link, by PE and by expert, and the report."""
        self._experts.finish(load)
        parts = [t.links for t in (clock.prefill, clock.decode) if t.links is not None]
        for wafer in range(self._program.wafers):
            self.writer.append_plane("links/words", sum(part[wafer] for part in parts))
            self.writer.append_plane("pe/busy_cycles", self._busy[wafer])
        write_layer_links(
            self.writer, layer_links(clock.fabric, self._runs, self._experts.chosen, self._experts.reached)
        )
        self.writer.write_summary({key: _encodable(value) for key, value in summary.items()})

    def _write_schedule(self, phase_index: int, key: CacheUse, cost: PhaseCost) -> int:
        p = self._program
        phase = p.phases[phase_index]
        stages = [p.stages[s] for s in phase.stage]
        first = np.where(np.isin(phase.kind, (Kind.COMPUTE, Kind.LINE)), phase.fixed[:, 0], 0)
        rows = np.where(
            np.isin(phase.kind, (Kind.COMPUTE, Kind.LINE)), phase.fixed[:, 1], [s.rect.rows for s in stages]
        )
        by_cause = cost.by_cause.astype(np.int64)
        steps = {
            "op": phase.op,
            "stage": phase.stage,
            "layer": np.array(p.op_layers, np.int32)[phase.op],
            "wafer": [s.wafer for s in stages],
            "kind": [KIND_CODES[Kind(k)] for k in phase.kind],
            "name": self.writer.append_names(_step_names(p, phase_index)),
            "start_cycle": cost.start.astype(np.int64),
            "cycles": by_cause.sum(axis=1),
            "cycles_by": by_cause,
            "words": cost.words,
            "hops": cost.hops,
            "row": np.array([s.rect.row for s in stages]) + first,
            "col": [s.rect.col for s in stages],
            "rows": rows,
            "cols": [s.rect.cols for s in stages],
        }
        name = "decode" if phase.name == "decode" else "prefill"
        return self.writer.append_schedule(steps, phase=name, kv_slots=key[0], cycles=int(cost.cycles))

    def _write_crossings(self, phase_index: int, cost: PhaseCost, pass_index: int) -> None:
        phase = self._program.phases[phase_index]
        found = np.flatnonzero(np.isin(phase.kind, (Kind.CROSS, Kind.WAFERS))).tolist()
        pairs = [
            (step, *pair) for step in found for pair in cost.crossed.get(step, self._program.crossings(phase, step))
        ]
        if not pairs:
            return
        steps, sources, targets = np.array(pairs).T
        crossing, host = CAUSES.index("crossing"), CAUSES.index("host")
        self.writer.append(
            "crossing",
            {
                "pass": np.full(len(steps), pass_index),
                "src_wafer": sources,
                "dst_wafer": targets,
                "bytes": cost.bytes[steps] // np.bincount(steps)[steps],
                "cycles": (cost.by_cause[steps, crossing] + cost.by_cause[steps, host]).astype(np.int64),
            },
        )

    def _count_busy(self, phase_index: int, cost: PhaseCost) -> None:
        phase = self._program.phases[phase_index]
        compute = cost.by_cause[:, CAUSES.index("compute")]
        for index, stage in enumerate(self._program.stages):
            mine = (phase.stage == index) & (phase.kind == Kind.COMPUTE)
            r = stage.rect
            whole = mine & (phase.fixed[:, 1] == r.rows)
            for wafer in stage.wafers:
                area = self._busy[wafer, r.row : r.row + r.rows, r.col : r.col + r.cols]
                area += int(compute[whole].sum())
                for step in np.flatnonzero(mine & ~whole):
                    area[phase.fixed[step, 0] : phase.fixed[step, 0] + phase.fixed[step, 1]] += int(compute[step])


def _encodable(value: Any) -> Any:
    """``value`` with what a file name may hold but UTF-8 may not (half of a surrogate pair) spelt out."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return {key: _encodable(item) for key, item in value.items()} if isinstance(value, dict) else value


def _step_names(program: Program, phase_index: int) -> list[str]:
    phase = program.phases[phase_index]
    names = []
    for kind, code in zip(phase.kind, phase.code, strict=True):
        if kind == Kind.COMPUTE:
            names.append(KERNELS[code])
        elif kind in (Kind.LINE, Kind.WAFERS):
            names.append(program.patterns[code].name)
        else:
            names.append(TRANSFER_NAMES[Kind(kind)])
    return names


def _options(prepared: Prepared) -> dict[str, Any]:
    o = prepared.options
    return {
        "dtype": o.dtype,
        "activations": o.activation_type,
        "accumulate": o.accumulate,
        "experts": o.experts,
        "context": o.context,
        "prompt_tokens": o.prompt_tokens[0] if o.batch == 1 else list(o.prompt_tokens),
        "new_tokens": prepared.new_tokens,
        "software": prepared.software.name,
        **asdict(prepared.request.sampling),
        "region": list(o.region) if o.region else None,
    }


def _defects(prepared: Prepared, program: Program) -> dict[str, Any]:
    """``mesh``: rows and columns that programs see on a wafer with defects; nothing where it is whole."""
    if prepared.defects is None:
        return {}
    mesh = [program.wafer_rows, program.wafer_cols]
    return {"defects": _encodable(prepared.defects.given), "defects_seed": prepared.defects.seed, "mesh": mesh}
