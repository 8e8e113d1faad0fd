"""Results come from tiles and transfers between the PEs' SRAM, and from nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from session import Session, golden, session

from wse.compiler.choice import Choice
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program

PROMPT = (1, 410, 469, 347)


def run(folder: Path, mesh: tuple[int, int] = (9, 9), **options: object) -> Session:
    return session(folder, mesh, prompt=PROMPT, new_tokens=6, logits=True, **options)  # type: ignore[arg-type]


def some_bytes_of_every_tile(program: Program) -> list[tuple[int, int, int]]:
    """(stage, byte address, element size) of the highest byte of an element in the middle of each weight tile."""
    found = []
    for stage, buffer in ((b.stage, b) for b in program.buffers if b.use == "weights"):
        size = ELEMENT_BYTES[buffer.element]
        element = buffer.address + (buffer.bytes // size // 2) * size
        found.append((stage, element + size - 1, size))
    return found


def test_one_flipped_byte_of_any_tile_shows_in_the_logits(shared: Path) -> None:
    folder = shared / "models" / "stories260k"
    clean = run(folder)
    first = clean.read()
    before = [clean.engine.logits[0]]
    clean.engine.decode([first])
    before.append(clean.engine.logits[0])
    unseen = []
    for stage, byte, size in some_bytes_of_every_tile(clean.program)[::5]:
        broken = run(folder)
        arena = broken.engine.arenas[stage]
        arena.memory[arena.byte_offset(0, 0, byte, size)] ^= 0x01
        broken.read()
        after = [broken.engine.logits[0]]
        broken.engine.decode([first])
        after.append(broken.engine.logits[0])
        if all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)):
            unseen.append(byte)
    assert len(unseen) <= 1, f"bytes {unseen} changed nothing"


@pytest.mark.parametrize("mesh", [(16, 16), (12, 20)], ids=["mesh-gemm", "thin-gemm"])
def test_two_runs_on_one_mesh_are_equal_bit_for_bit(shared: Path, mesh: tuple[int, int]) -> None:
    folder = shared / "models" / "stories260k"
    logits = []
    for _ in range(2):
        again = run(folder, mesh)
        again.greedy(4)
        logits.append(again.engine.logits[0])
    assert logits[0].tobytes() == logits[1].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh", "prefill"),
    [((5, 5), "mesh-gemm"), ((5, 5), "mesh-gemm-own-weights"), ((5, 5), "thin-gemm"), ((5, 4), "thin-gemm")],
)
@pytest.mark.parametrize("chunk", [5, 10])
def test_a_prompt_in_chunks_is_as_at_once(shared: Path, mesh: tuple[int, int], prefill: str, chunk: int) -> None:
    folder = shared / "models" / "stories260k"
    case = golden(folder)[0]
    prompt = case["token_ids"][:23]
    results = []
    for size in (chunk, len(prompt)):
        choice = Choice(prefill=prefill, prefill_chunk=size, head_chunk=7)
        part = session(folder, mesh, prompt=prompt, new_tokens=9, sram_bytes=1 << 18, choice=choice, logits=True)
        assert part.greedy(9) == case["token_ids"][23:32]
        results.append(part.engine.logits[0])
    assert np.abs(results[0] - results[1]).max() < 1e-4


def test_the_cache_is_used_to_its_last_slot(shared: Path) -> None:
    """The context that was compiled is the context that runs: its last token still equals the golden one."""
    folder = shared / "models" / "stories260k"
    case = golden(folder)[1]
    expected = case["token_ids"][4:104]
    tokens = session(folder, (9, 7), prompt=PROMPT, new_tokens=100, sram_bytes=1 << 17).greedy(100)
    assert tokens == expected
