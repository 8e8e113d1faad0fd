"""What all PEs do in a token, against the tiles that they hold and the operations of kernels written out."""

from __future__ import annotations

import pytest
from session import SOFTWARE, region_options, wafer
from tiny_model import tiny_spec

from wse.backends.fabric.activity import phase_counts
from wse.backends.fabric.step_classes import step_classes
from wse.compiler.choice import Choice
from wse.compiler.pipeline import compile_choice
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import is_linear
from wse.program.program import Program

ROWS, COLS = 5, 4
MACHINE = wafer(ROWS, COLS, 1 << 20)


def program_of(spec: ModelSpec, *, batch: int = 1, experts: str = "distributed") -> Program:
    options = region_options(dtype="float16", context=40, prompt_tokens=(6,) * batch, experts=experts)
    choice = Choice(prefill="thin-gemm", prefill_chunk=6, head_chunk=67)
    return compile_choice(spec, MACHINE, SOFTWARE, options, choice)


def product_elements(program: Program) -> int:
    """Elements of the tiles of products on one PE."""
    tensors = [[part.tensor for part in tile.parts] for tile in program.tiles]
    products = [any(is_linear(name) or name == "head" for name in names) for names in tensors]
    return sum(tile.elements for tile, product in zip(program.tiles, products, strict=True) if product)


@pytest.mark.parametrize("batch", [1, 3])
def test_every_weight_is_read_and_multiplied_once_for_each_user(batch: int) -> None:
    """A few users' products are one GEMV each."""
    program = program_of(tiny_spec(tied=False), batch=batch)
    none, some = phase_counts(
        program, MACHINE, SOFTWARE, program.decode, [(0,), (3,)], step_classes(program.decode.steps)
    )
    assert none.macs == batch * product_elements(program) * ROWS * COLS
    assert none.read_bytes == 2 * batch * product_elements(program) * ROWS * COLS
    cache = sum(buffer.bytes for buffer in program.buffers if buffer.use == "kv") // 8  # of 8 slots, all users
    assert some.read_bytes - none.read_bytes == 3 * cache * ROWS * COLS
    assert some.macs - none.macs == 3 * (cache // 2) * 3 * ROWS * COLS  # three query heads share keys and values


def test_vector_operations_of_a_token_are_whole_and_more_for_more_users() -> None:
    counts = []
    for batch in (1, 2):
        program = program_of(tiny_spec(), batch=batch)
        counts.append(
            phase_counts(program, MACHINE, SOFTWARE, program.decode, [(2,)], step_classes(program.decode.steps))[
                0
            ].vector_operations
        )
    assert all(count == int(count) and count % COLS == 0 for count in counts)
    assert counts[1] > counts[0] > len(program.decode.steps) * ROWS * COLS
