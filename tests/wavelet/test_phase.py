"""The LINE steps of whole phases of a small model: wavelets against the fast model's words, links and cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from session import SOFTWARE, Session, session

from wse.fabric.line_time import LineCosts, line_cycles
from wse.program import COLUMNS, Field, Kind, Phase
from wse.wavelet.phase import StepRun, line_steps
from wse_mappings.cache_balance import CacheBalance


@pytest.fixture(scope="module", params=[(8, 8), (7, 5)], ids=lambda mesh: f"{mesh[0]}x{mesh[1]}")
def compiled(shared: Path, request: pytest.FixtureRequest) -> Session:
    folder = shared / "models" / "stories260k"
    return session(folder, request.param, prompt=[1, 2, 3, 4], new_tokens=4, sram_bytes=1 << 18)


def runs(compiled: Session, phase: Phase) -> list[StepRun]:
    gap = SOFTWARE.reduce_gap_cycles
    return list(line_steps(compiled.program, phase, slots(compiled, phase), compiled.machine, gap))


def slots(compiled: Session, phase: Phase) -> int:
    return CacheBalance.slots_after(phase.cached + phase.tokens, compiled.program.stages[0].rect.rows)


def test_hops_of_every_step_are_those_of_the_fast_model(compiled: Session) -> None:
    cost = compiled.fabric().prefill_cost(0)
    phase = compiled.program.prefill[0]
    hops: dict[tuple[int, ...], int] = {}
    for each in runs(compiled, phase):
        hops[each.steps] = hops.get(each.steps, 0) + each.repeat * each.result.hops
    assert sum(len(steps) for steps in hops) == int((phase.kind == Kind.LINE).sum())
    for steps, counted in hops.items():
        assert counted == int(cost.hops[list(steps)].sum())


def test_link_words_of_a_prefill_are_equal_exactly(compiled: Session) -> None:
    cost = compiled.fabric().prefill_cost(0)
    rect = compiled.program.stages[0].rect
    links = sum(each.repeat * each.result.link_words for each in runs(compiled, compiled.program.prefill[0]))
    there = cost.links[0][:, rect.row : rect.row + rect.rows, rect.col : rect.col + rect.cols]
    assert np.array_equal(links, there)
    assert there.sum() == cost.links.sum()


def test_cycles_of_all_line_steps_of_a_decoded_token(compiled: Session) -> None:
    """Alone on its links, a step's cycles are those of the fast model; streams that share some make the sum longer."""
    machine, program, phase = compiled.machine, compiled.program, compiled.program.decode
    costs = LineCosts(
        hop=machine.hop_cycles,
        ramp=machine.ramp_cycles,
        gap=SOFTWARE.reduce_gap_cycles,
        words_per_cycle=machine.stream_words_per_cycle,
    )
    fast = wavelets = 0.0
    for each in runs(compiled, phase):
        longest = 0.0
        for step in each.steps:
            a, pattern = phase.operands(step, slots(compiled, phase), each.turn), program.patterns[phase.code[step]]
            words = int(a[Field.ELEMENTS])  # float32
            lines = range(pattern.variants.shape[1]) if phase.axis[step] == COLUMNS else range(a[0], a[0] + a[1])
            taken = [line_cycles(pattern.of_line(line, each.turn), words, costs).total for line in lines]
            longest = max([longest, *taken]) if words and pattern.colours else longest
        fast += each.repeat * longest
        wavelets += each.repeat * each.result.cycles
    assert fast <= wavelets <= 1.1 * fast
