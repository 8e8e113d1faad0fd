"""Compile, execute, time and trace: what ``wse run`` does."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.errors import BadModel, BadTrace
from wse.execute.engine import Engine
from wse.execute.sampling import Sampler
from wse.fabric.phase_cost import Fabric
from wse.models.token_text import TextStream, Tokenizer
from wse.program import Program
from wse.studies.clock import Clock
from wse.studies.facts import (
    Report,
    crossing_facts,
    decode_facts,
    fabric_facts,
    model_facts,
    prefill_facts,
    sram_facts,
    system_facts,
    wafer_facts,
)
from wse.studies.record import Recorder
from wse.studies.request import Prepared
from wse.studies.wavelet_log import check_loggable, log_wavelets
from wse_traces.errors import TraceError

OnText = Callable[[str], None]
OnReady = Callable[[int, int, str], None]


def run(
    prepared: Prepared,
    program: Program,
    *,
    trace: Path | None = None,
    wavelets: bool = False,
    on_text: OnText = lambda text: None,
    on_ready: OnReady = lambda done, total, name: None,
) -> Report:
    """Execute a compiled request; the report, with the JSON keys that the command line promises.

    Args:
        prepared: The request.
        program: Its Program.
        trace: Where to write the trace; None writes none.
        wavelets: Whether to carry out the last pass wavelet by wavelet too, and log every move in the trace.
        on_text: Hears the prompt's text and then each stretch of generated text.
        on_ready: Hears (done, all, name) while kernels compile.

    Raises:
        BadModel: there are no weights to execute.
        BadTrace: the trace cannot be written.
        BadInput: wavelets without a trace, or on a region that is too large for them.
    """
    if wavelets:
        check_loggable(program, prepared.wafer, traced=trace is not None)
    loaded = prepared.loaded
    if loaded.checkpoint is None:
        message = (
            f"{loaded.path}: has no weights to execute; give the model's folder (wse compile needs the config alone)"
        )
        raise BadModel(message)
    started = time.perf_counter()
    digest = program.digest()
    try:
        with Recorder(trace, prepared, program, digest) if trace else nullcontext() as recorder:
            sampler = Sampler(prepared.request.sampling, prepared.prompt_ids)
            draw = sampler.draw if program.sampling == "host" else None
            engine = Engine(program, loaded.spec, loaded.checkpoint.rows, draw)
            engine.make_ready(on_ready)
            session = _Session(prepared, program, engine, recorder, on_text)
            session.generate()
            report = session.report(digest, time.perf_counter() - started)
            if recorder is not None:
                report["trace"] = str(trace)
                if wavelets:
                    report["wavelets"] = session.log_wavelets(recorder)
                recorder.finish(session.clock, report)
    except TraceError as error:
        raise BadTrace(str(error)) from error
    return report


class _Session:
    """One prompt and what follows it."""

    def __init__(
        self, prepared: Prepared, program: Program, engine: Engine, recorder: Recorder | None, on_text: OnText
    ) -> None:
        self.prepared, self.program, self.engine, self.recorder = prepared, program, engine, recorder
        self.clock = Clock(Fabric(program, prepared.wafer, prepared.software))
        self.tokens: list[int] = []
        self.text = ""
        self.prompt_logits: npt.NDArray[np.float32] | None = None
        self.wall_s = 0.0
        self._on_text = on_text
        self._last_pass = 0  # in the trace
        tokenizer: Tokenizer | None = prepared.loaded.tokenizer
        self._stream: TextStream | None = tokenizer.stream() if tokenizer else None

    def generate(self) -> None:
        """Run the prompt, then one token after another until an end token or the count."""
        began = time.perf_counter()
        token = self._prompt()
        while True:
            self.tokens.append(token)
            if token in self.prepared.end_ids or len(self.tokens) == self.prepared.new_tokens:
                break
            token = self._next()
        if self._stream is not None:
            self._say(self._stream.finish())
        self.wall_s = time.perf_counter() - began

    def _prompt(self) -> int:
        ids, last = self.prepared.prompt_ids, 0
        began = time.perf_counter()
        for index in self.engine.prefill(ids):
            before = self.clock.cycles
            cost = self.clock.prefill_chunk(index)
            if self.recorder is not None:
                key = (self.engine.cache.slots, 0)
                last = self._last_pass = self.recorder.passed(index, key, cost, before, time.perf_counter() - began)
            began = time.perf_counter()
        if self.program.logits_out:
            self.prompt_logits = self.engine.logits
        texts = [self._say(self._push(token)) for token in ids]
        if self.recorder is not None:
            self.recorder.prompt(ids, texts)
        token = self.engine.token
        self._token(token, last, self.clock.cycles, 0.0)
        return token

    def _next(self) -> int:
        began = time.perf_counter()
        before = self.clock.cycles
        token = self.engine.decode()
        key, cost = self.clock.decoded()
        wall = time.perf_counter() - began
        index = 0
        if self.recorder is not None:
            index = self._last_pass = self.recorder.passed(len(self.program.phases) - 1, key, cost, before, wall)
        self._token(token, index, cost.cycles, wall)
        return token

    def _token(self, token: int, pass_index: int, cycles: float, wall_s: float) -> None:
        text = self._say(self._push(token))
        if self.recorder is not None:
            position = len(self.prepared.prompt_ids) + len(self.tokens)
            self.recorder.token(token, text, pass_index, position, cycles, wall_s)

    def _push(self, token: int) -> str:
        return self._stream.push(token) if self._stream is not None else ""

    def _say(self, text: str) -> bytes:
        if text:
            self.text += text
            self._on_text(text)
        return text.encode()

    def log_wavelets(self, recorder: Recorder) -> Report:
        """The last pass, wavelet by wavelet."""
        program, prepared = self.program, self.prepared
        phase = program.decode if self.clock.decode.runs else program.prefill[-1]
        return log_wavelets(
            recorder.writer,
            program,
            phase,
            self.clock.length - phase.tokens,
            prepared.wafer,
            prepared.software,
            pass_index=self._last_pass,
        )

    def report(self, digest: str, wall_s: float) -> Report:
        """Everything that JSON promises of a run."""
        prepared, program, clock = self.prepared, self.program, self.clock
        wafer, spec = prepared.wafer, prepared.spec
        report: dict[str, Any] = {
            "tokens": self.tokens,
            "text": self.text,
            "prompt_tokens": len(prepared.prompt_ids),
            "model": model_facts(spec, program),
            "wafer": wafer_facts(wafer),
            "system": system_facts(program),
            "sram": sram_facts(program, wafer.sram_bytes_per_pe),
            "prefill": prefill_facts(clock.prefill, len(prepared.prompt_ids), wafer.clock_hz),
        }
        if prepared.request.logits and self.prompt_logits is not None:
            report["prompt_logits_last"] = [float(v) for v in self.prompt_logits]
        if self._stream is None:
            del report["text"]
        totals = clock.decode
        if totals.runs:
            report["decode"] = decode_facts(totals, spec.layer_count, wafer.clock_hz)
            report["crossing"] = crossing_facts(totals, wafer.clock_hz)
        report["fabric"] = fabric_facts(program, totals)
        report["emulation"] = {
            "wall_s": wall_s,
            "tokens_per_s": len(self.tokens) / self.wall_s,
            "program_digest": digest,
        }
        return report
