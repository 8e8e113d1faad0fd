"""A run written down as it goes on: its prompts, passes and tokens."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

from wse.execute.outputs import Values
from wse.fabric.phase_cost import CacheUse, PhaseCost
from wse.fabric.routed import Pairs
from wse.program import Program
from wse.studies.record.header import trace_header
from wse.studies.record.recorder import Recorder
from wse.studies.request import Prepared


class RunRecorder(Recorder):
    """Writes one run."""

    def __init__(self, path: Path, prepared: Prepared, program: Program, digest: str) -> None:
        """Raises TraceError when the path cannot be written."""
        sampling = prepared.request.sampling
        options = {"command": "run", **asdict(sampling)}
        super().__init__(path, program, trace_header(prepared, program, digest, sampling.seed, options))
        self._made: list[tuple[int, Values]] = []

    def made(self, op: int, values: Values) -> None:
        """What an op made in the pass that runs, which is written with it."""
        self._made.append((op, values))

    def prompt(self, user: int, ids: tuple[int, ...], texts: list[bytes], passes: list[int]) -> None:
        """The tokens of a user's prompt, each with the pass that read it, once its chunks have run."""
        for position, (token, text, index) in enumerate(zip(ids, texts, passes, strict=True)):
            self.writer.append_token(
                token_id=token, text=text, is_prompt=True, pass_index=index, position=position, sequence=user
            )

    def passed(
        self, phase_index: int, use: CacheUse, cost: PhaseCost, pairs: Pairs, start: float, wall_s: float
    ) -> int:
        """One run of a phase, whose tokens chose experts as ``pairs`` says; its index among the passes."""
        slots, passing = use
        routed = self._program.phases[phase_index].routed.any()
        chosen = b"".join(tokens.tobytes() for tokens in pairs.values()) if routed else b""
        same = (passing, blake2b(chosen, digest_size=16).digest())
        schedule = self.schedule(phase_index, cost, slots, same)
        index = self.passes(phase_index, schedule, cost, [use], [start], pairs, wall_s).start
        self.experts.write(index, pairs)
        made, self._made = self._made, []
        for op, values in made:
            self.writer.append_tensor(values, pass_index=index, op=op)
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
