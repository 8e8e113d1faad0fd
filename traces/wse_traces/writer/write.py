"""Write a trace while a run proceeds: schedules, passes, tokens, tensors, planes and report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wse_traces import schema
from wse_traces.schema import BY_PATH, PHASES
from wse_traces.writer.table_writer import TableWriter


class Token(NamedTuple):
    """A token that was read from a prompt or generated.

    Attributes:
        token_id: Id in the vocabulary, or -1 if it is unknown.
        text: UTF-8 bytes of the token, which may be only a part of a character.
        is_prompt: Whether the token belongs to a prompt.
        pass_index: Pass that read or generated the token, or -1.
        position: Position in its sequence.
        sequence: Index of the sequence in the batch.
        cycles: Cycles since the previous token; 0 for a prompt token.
        wall_s: Seconds that the emulator needed; 0 for a prompt token.
    """

    token_id: int
    text: bytes
    is_prompt: bool
    pass_index: int
    position: int
    sequence: int = 0
    cycles: int = 0
    wall_s: float = 0.0


class TraceWriter(TableWriter):
    """A writer of one trace file, with a method for each part of a trace.

    Use it as a context manager, like `TableWriter`.
    """

    def append_schedule(
        self, steps: Mapping[str, ArrayLike], *, phase: str, kv_slots: int, cycles: int | None = None
    ) -> int:
        """Append a schedule, a sequence of steps that many passes may execute.

        Args:
            steps: Columns of the table of steps.
            phase: "prefill", "decode" or "verify".
            kv_slots: Number of cached tokens (KV-cache slots in use) on the fullest row of PEs.
            cycles: Duration of the schedule. None means the end of its last step.

        Returns:
            Index of the schedule.
        """
        rows = self.append("step", steps)
        if cycles is None:
            cycles = int(np.max(np.add(steps["start_cycle"], steps["cycles"]), initial=0))
        row = (PHASES.index(phase), kv_slots, rows.start, len(rows), cycles)
        return self.append_rows("schedule", [row]).start

    def append_pass(self, *, schedule: int, start_cycle: int, wall_s: float) -> int:
        """Append a pass, which is one execution of a schedule.

        Args:
            schedule: Index of the schedule.
            start_cycle: Start, in cycles from the start of the run.
            wall_s: Seconds that the emulator needed.

        Returns:
            Index of the pass.
        """
        return self.append_rows("pass", [(schedule, start_cycle, wall_s)]).start

    def append_tokens(self, *tokens: Token) -> range:
        """Append consecutive tokens, and return their indices."""
        byte_rows = self.append("text_byte", {"text": np.frombuffer(b"".join([token.text for token in tokens]), "u1")})
        ends = byte_rows.start + np.cumsum([len(token.text) for token in tokens])
        rows = [
            (t.token_id, t.is_prompt, t.sequence, t.position, t.pass_index, t.cycles, t.wall_s, end)
            for t, end in zip(tokens, ends.tolist(), strict=True)
        ]
        return self.append_rows("token", rows)

    def append_tensor(self, values: ArrayLike, *, pass_index: int, op: int) -> int:
        """Append the output of an op in one pass.

        Args:
            values: Array with at most four axes.
            pass_index: Pass in which the op ran.
            op: Index of the op.

        Returns:
            Index of the tensor.
        """
        array = np.ascontiguousarray(values)
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        end = self.append("tensor_byte", {"bytes": np.frombuffer(little.tobytes(), "u1")}).stop
        shape = (1,) * (4 - array.ndim) + array.shape
        return self.append_rows("tensor", [(pass_index, op, array.dtype.name, shape, end)]).start

    def append_content(self, values: ArrayLike, *, pass_index: int, buffer: int, pe: tuple[int, int, int]) -> int:
        """Append the contents of one SRAM buffer of a PE.

        Args:
            values: uint8 ``[bytes]``.
            pass_index: Pass in which the bytes were read.
            buffer: Index of the buffer.
            pe: Wafer, row and column of the PE.

        Returns:
            Index of the row in the table ``content``.
        """
        end = self.append("content_byte", {"bytes": np.asarray(values, np.uint8)}).stop
        return self.append_rows("content", [(pass_index, buffer, *pe, end)]).start

    def append_pattern(self, words: ArrayLike) -> int:
        """Append a pattern: the number of words on each link of the rectangle of PEs of a layer.

        Several layers can refer to the same pattern.

        Args:
            words: int ``[direction, row, col]``.

        Returns:
            Index of the pattern.
        """
        array = np.asarray(words)
        rows, cols = array.shape[1:]
        return self.append("pattern", {"words": array[np.newaxis], "rows": [rows], "cols": [cols]}).start

    def append_plane(self, path: str, values: ArrayLike) -> int:
        """Append the values of every PE of the next wafer to a dataset.

        Args:
            path: ``links/words``, ``pe/busy_cycles`` or ``sram/bytes_per_pe``.
            values: Array with the axes of the dataset after the first.

        Returns:
            Index of the wafer.

        Raises:
            ValueError: The values have the wrong shape.
        """
        field = BY_PATH[path]
        if np.shape(values) != schema.shape_of(field, self.header):
            raise ValueError(
                f"{path}: a plane of shape {np.shape(values)}, needed: {schema.shape_of(field, self.header)}"
            )
        return self.append(field.table, {field.name: np.asarray(values)[np.newaxis]}).start

    def append_sram(self, stages: Mapping[str, ArrayLike], *, pe_bytes: int) -> None:
        """Append the table of stages, and for every PE its SRAM bytes by use, such as weights.

        All PEs of a stage are assumed to be as full as its fullest PE. The SRAM of PEs that belong
        to no stage is free.

        Args:
            stages: Columns of the table of stages.
            pe_bytes: Bytes of SRAM of a PE.
        """
        self.append("stage", stages)
        shape = (len(schema.USES), self.header.rows, self.header.cols)
        corners = [np.asarray(stages[name]) for name in ("wafer", "row", "col", "rows", "cols")]
        for wafer in range(self.header.wafers):
            plane = np.zeros(shape, "<i4")
            plane[schema.USES.index("free")] = pe_bytes
            for w, row, col, rows, cols, uses in zip(*corners, np.asarray(stages["stage_bytes"]), strict=True):
                if w == wafer:
                    plane[:, row : row + rows, col : col + cols] = uses[:, np.newaxis, np.newaxis]
            self.append_plane("sram/bytes_per_pe", plane)

    def write_summary(self, report: Mapping[str, object]) -> None:
        """Store the report of the run. Call this once, at the end of the run."""
        text = json.dumps(report, ensure_ascii=False).encode()
        self.append("summary_byte", {"summary": np.frombuffer(text, "u1")})
