"""Matrices of experts and where files hold them: one by one, or all experts of a layer in one tensor."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from wse.models.family import Piece
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_entry import Index

GATE_UP: Final = ("experts.gate", "experts.up")
DOWN: Final = "experts.down"
SIGMOID_NAMES: Final = {
    "router": "mlp.gate.weight",
    "router_correction": "mlp.gate.e_score_correction_bias",
    **{f"shared.{part}": f"mlp.shared_experts.{part}_proj.weight" for part in ("gate", "up", "down")},
}
"""The rest of a mixture of experts as DeepSeek-V3 writes it."""
PARTS: Final = ("gate_proj", "up_proj", "down_proj")


def expert_pieces(
    name: str, spec: ModelSpec, at: str, held: Collection[str], parts: tuple[str, str, str] = PARTS
) -> tuple[Piece, ...]:
    """The pieces of our tensor ``name``; none where it is no matrix of experts.

    Files hold one matrix an expert, ``at.E.PART.weight`` with ``parts`` for gate, up and down. What transformers 5
    holds in memory is accepted too: ``at.gate_up_proj`` [experts, 2 width, hidden] and ``at.down_proj``.
    """
    if name not in (*GATE_UP, DOWN) or spec.experts is None:
        return ()
    if f"{at}.down_proj" in held:
        return stacked_pieces(name, spec, at, transposed=False)
    experts, hidden_size = spec.experts, spec.hidden_size
    shape = (hidden_size, experts.ffn_size) if name == DOWN else (experts.ffn_size, hidden_size)
    part = parts[(*GATE_UP, DOWN).index(name)]
    return tuple(Piece(file_name=f"{at}.{expert}.{part}.weight", file_shape=shape) for expert in range(experts.count))


def stacked_pieces(
    name: str, spec: ModelSpec, at: str, *, transposed: bool, interleaved: bool = False
) -> tuple[Piece, ...]:
    """The pieces of our tensor ``name`` in ``at.gate_up_proj`` and ``at.down_proj``; none where it is in neither.

    The tensors are [experts, out, in], or [experts, in, out] with ``transposed``. Outputs of gate and up stand one
    behind the other, or ``interleaved`` in turn. Added vectors are ``..._bias`` [experts, out].
    """
    matrix, bias = name.removesuffix("_bias"), name.endswith("_bias")
    if matrix not in (*GATE_UP, DOWN) or spec.experts is None:
        return ()
    count, width, hidden_size = spec.experts.count, spec.experts.ffn_size, spec.hidden_size
    file_name = f"{at}.{'down' if matrix == DOWN else 'gate_up'}_proj"
    outputs, inputs = (hidden_size, width) if matrix == DOWN else (2 * width, hidden_size)
    taken = slice(None) if matrix == DOWN else _half(GATE_UP.index(matrix), width, interleaved=interleaved)
    if bias:
        return tuple(
            Piece(file_name=f"{file_name}_bias", file_shape=(count, outputs), index=(expert, taken))
            for expert in range(count)
        )
    shape = (count, inputs, outputs) if transposed else (count, outputs, inputs)
    rest: Index = (slice(None), taken) if transposed else (taken, slice(None))
    return tuple(
        Piece(file_name=file_name, file_shape=shape, index=(expert, *rest), transposed=transposed)
        for expert in range(count)
    )


def _half(which: int, width: int, *, interleaved: bool) -> slice:
    return slice(which, None, 2) if interleaved else slice(which * width, (which + 1) * width)
