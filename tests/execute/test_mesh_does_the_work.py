"""Results come from tiles and transfers between the PEs' SRAM, and from nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from session import Session, session

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
