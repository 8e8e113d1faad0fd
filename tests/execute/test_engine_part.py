"""Engines of one wafer each, which hand tiles to each other: bits, words and bytes are those of one engine for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from tiers import slow_but
from tiny_model import latent_spec, tensors, tiny_spec
from wafer_runs import CHOICE, OPTIONS

from wse.backends.execute.calls.segments import may_overlap, segments
from wse.backends.execute.engine import Engine, chunk_of
from wse.backends.execute.engine_part import EnginePart
from wse.compiler.pipeline import compile_choice
from wse.errors import WseBug
from wse.models.spec import ModelSpec
from wse.program.program import Program

PROMPTS = ((5, 9, 31, 7, 12, 40, 2), (3, 11))
CASES: dict[str, tuple[ModelSpec, tuple[int, int], int, dict[str, Any]]] = {
    "ring": (tiny_spec(), (4, 3), 2, {}),
    "untied": (tiny_spec(tied=False, layers=3), (4, 3), 3, {}),
    "several blocks a row": (tiny_spec(), (2, 140), 2, {}),
    "one row": (tiny_spec(), (1, 5), 2, {}),
    "latent": (latent_spec(layers=2), (4, 3), 2, {}),
    "experts": (mixture_spec(MIXTURES["shared"]), (3, 3), 2, {}),
    "drawn": (tiny_spec(), (4, 3), 2, {"sampling": "host", "verify_tokens": 0}),
}


def compiled(spec: ModelSpec, mesh: tuple[int, int], wafers: int, **wanted: Any) -> Program:
    asked = {"mapping": "region", "verify_tokens": 1} | wanted
    lengths = tuple(map(len, PROMPTS))
    options = replace(OPTIONS, wafers=wafers, prompt_tokens=lengths, context=20, **asked)
    return compile_choice(spec, wafer(*mesh, 1 << 20), SOFTWARE, options, CHOICE)


class Host:
    """The host of some parts: it runs each phase's segments in turn, and keeps the ids and logits that come out."""

    def __init__(self, program: Program, spec: ModelSpec) -> None:
        held = tensors(spec).__getitem__
        self.program = program
        self.parts = [EnginePart(program, spec, held, number) for number in range(program.wafers)]
        self.tokens = np.full(program.batch + program.verify_tokens, -1)
        self.logits = np.zeros((len(self.tokens), program.vocab_size), np.float32)

    def run(self, index: int, ids: Sequence[int]) -> None:
        phase, crossing = self.program.phases[index], dict[int, npt.NDArray[Any]]()
        places = self.program.host_places(phase)
        for number, segment in enumerate(segments(self.program, phase.steps)):
            if segment.draws:
                self.tokens[places] = self.logits[places].argmax(axis=1)
            received = [crossing.pop(step) for step in segment.receives]
            report, *sent = self.parts[segment.wafer].run(index, number, ids, self.tokens.tolist(), *received)
            crossing |= dict(zip(segment.sends, sent, strict=True))
            if report.tokens is not None:
                self.tokens[places] = report.tokens
            if report.logits is not None:
                self.logits[places] = report.logits
        assert not crossing


@pytest.mark.parametrize("name", slow_but(CASES, "ring", "untied", "several blocks a row", "drawn"))
def test_parts_together_are_one_engine(name: str) -> None:
    spec, mesh, wafers, wanted = CASES[name]
    program = compiled(spec, mesh, wafers, **wanted)
    draws = [lambda logits: int(logits.argmax())] * len(PROMPTS) if "drawn" in name else []
    whole, host = Engine(program, spec, tensors(spec).__getitem__, draws), Host(program, spec)
    users = range(program.batch)

    def check(*, verified: bool = False) -> None:
        places, logits = (slice(2, None), whole.verified_logits) if verified else (slice(2), whole.logits)
        np.testing.assert_array_equal(host.logits[places], logits)

    for index in whole.prefill(*PROMPTS):
        host.run(index, chunk_of(program.phases[index], PROMPTS))
    for _ in range(3):
        check()
        assert host.tokens[:2].tolist() == whole.tokens
        whole.decode()
        host.run(program.decode_index, ())
    latest = whole.tokens
    for user in [*users, *users] if program.verify_tokens else ():
        ids = whole.verify(latest[user : user + 1], user)
        host.run(program.phases.index(program.verify[user]), latest[user : user + 1])
        check(verified=True)
        whole.keep(1, user)
        for part in host.parts:
            part.keep(user, 1, ids[0])
        latest[user] = ids[0]
    engines = [part.engine for part in host.parts]
    np.testing.assert_array_equal(np.concatenate([engine.link_words() for engine in engines]), whole.link_words())
    assert sum((engine.streams.crossed for engine in engines), Counter()) == whole.streams.crossed
    assert [set(engine.arenas) for engine in engines] == [
        {i for i, stage in enumerate(program.stages) if stage.wafer == number} for number in range(wafers)
    ], "each has the SRAM of its wafer alone"


def test_a_second_pass_may_begin_on_a_wafer_that_only_the_head_waits_for() -> None:
    """Two bands a wafer, taken in turn, are no such pipeline: layers of the pass before are still to come."""
    program = compiled(tiny_spec(layers=4), (4, 3), 2)
    found = segments(program, program.decode.steps)
    assert [segment.wafer for segment in found] == [0, 1, 0]
    assert may_overlap(program, program.decode.steps, found)
    back = replace(program, op_layers=tuple(max(layer, 0) for layer in program.op_layers))
    assert not may_overlap(back, back.decode.steps, found)
    alive = replace(program.buffers[0], stage=0, live=((program.decode_index, 0, len(program.decode.steps) - 1),))
    kept = replace(program, buffers=(*program.buffers, alive))
    assert not may_overlap(kept, kept.decode.steps, found)


def test_a_region_over_wafers_has_no_segments() -> None:
    program = compiled(tiny_spec(), (4, 3), 2, mapping="tensor")
    with pytest.raises(WseBug, match="spans wafers"):
        segments(program, program.decode.steps)
