"""Layer dimensions that are partitioned across PEs, and the weight matrices that have them.

A dimension is either the hidden features or the features of a feed-forward block. A matrix
contracts over a dimension if the dimension is its input.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wse.models.spec import Layer, ModelSpec
from wse.models.tensors.model_tensors import coding_of, layer_shapes
from wse.number_formats import Coding

HIDDEN, FFN, SHARED, EXPERTS = "hidden", "ffn", "shared", "experts"
"""Dimensions: hidden features, and the features of a dense block, shared block and expert."""

HIDDEN_IN: Final = (
    *("q", "k", "v", "q_gate", "q_a", "kv_a", "k_rope"),
    *("z", "b", "a", "router", "gate", "up"),
)
"""Matrices of a layer, without prefix, that contract over hidden features."""

_HIDDEN_OUT: Final = ("o", "down")


class Dimension(NamedTuple):
    """Model dimension, such as the hidden features, and the weight matrices that have it.

    The dimension is partitioned across PEs. The matrices determine how many bytes a division needs.

    Attributes:
        extent: Number of elements.
        group: Size of the quantisation groups of ``contracting_matrices``; 0 if there are no
            groups, or groups of different sizes.
        contracting_matrices: Matrices that contract over the dimension (have it as their input).
        output_matrices: Matrices that have the dimension as their output.
        float_bytes: Size of an unquantised element in bytes.
    """

    extent: int
    group: int
    contracting_matrices: tuple[_Matrix, ...]
    output_matrices: tuple[_Matrix, ...]
    float_bytes: int

    def line_bytes(self, cut: Cut) -> float:
        """Return how many bytes of weights the fullest row or column of PEs stores with a division.

        Quantisation scales are included only for matrices that have the dimension as their input.

        Args:
            cut: How the dimension is divided: size of the largest block, and number of quantisation
                groups that a block touches.
        """
        width, float_bytes = cut.width, self.float_bytes
        total: float = sum(
            _code_bytes(coding, width, float_bytes) * weights for coding, weights in self.contracting_matrices
        )
        total += sum(_bits(coding, float_bytes) * width * weights for coding, weights in self.output_matrices) / 8
        for coding, weights in self.contracting_matrices:
            if coding is not None:
                total += cut.touched * coding.scale_bytes(float_bytes) * weights / coding.block
        return total

    @property
    def place_bytes(self) -> float:
        """Bytes of all weights that belong to one element of the dimension, without scales."""
        return (
            sum(
                _bits(coding, self.float_bytes) * weights
                for coding, weights in (*self.contracting_matrices, *self.output_matrices)
            )
            / 8
        )


class Cut(NamedTuple):
    """A division of a dimension (such as the hidden features) into blocks, one per row or column.

    Attributes:
        width: Elements of the largest block.
        touched: Maximum number of quantisation groups (inputs that share a scale) that a block
            overlaps.
    """

    width: int
    touched: int


class _Matrix(NamedTuple):
    """A weight matrix that has a given dimension, such as the hidden features, as input or output.

    Attributes:
        coding: Quantisation format of the matrix; None if it is not quantised.
        weights: Number of weights per element of the dimension.
    """

    coding: Coding | None
    weights: int


def dimension_of(spec: ModelSpec, kind: str, dtype: str, float_bytes: int) -> Dimension:
    """Return the properties of a dimension that determine how it is best divided.

    Args:
        spec: Model.
        kind: The dimension: ``HIDDEN``, ``FFN``, ``SHARED`` or ``EXPERTS``.
        dtype: Element type or quantisation format of the weights.
        float_bytes: Size of an unquantised element in bytes.
    """
    matrices = _matrices(spec, kind)
    by_contraction: dict[bool, list[_Matrix]] = {True: [], False: []}
    for name, weights in matrices:
        by_contraction[_contracts(name, kind)].append(_Matrix(coding_of(spec, f"layers.0.{name}", dtype), weights))
    groups = {coding.group for coding, _ in by_contraction[True] if coding is not None and coding.group}
    group = groups.pop() if len(groups) == 1 else 0
    return Dimension(_extent(spec, kind), group, tuple(by_contraction[True]), tuple(by_contraction[False]), float_bytes)


def _extent(spec: ModelSpec, kind: str) -> int:
    """Return the length of a dimension, such as the number of hidden features.

    The length is 0 if the model does not have the dimension.
    """
    if kind in (HIDDEN, FFN):
        return spec.hidden_size if kind == HIDDEN else spec.ffn_size
    if spec.experts is None:
        return 0
    return spec.experts.ffn_size if kind == EXPERTS else spec.experts.shared_size


def _matrices(spec: ModelSpec, kind: str) -> list[tuple[str, int]]:
    """Return the matrices of a layer that have a given dimension as their input or output.

    Returns:
        (name, weights per element of the dimension) of each matrix.
    """
    extent = max(_extent(spec, kind), 1)
    layer = Layer(experts=spec.experts is not None and kind != FFN)
    prefix = {HIDDEN: None, FFN: "", SHARED: "shared.", EXPERTS: "experts."}[kind]
    return [
        (name, shape[0] * shape[1] // extent)
        for name, shape in layer_shapes(spec, layer).items()
        if len(shape) == 2
        and (
            name.rpartition(".")[2] in (*HIDDEN_IN, *_HIDDEN_OUT)
            if prefix is None
            else name in (f"{prefix}gate", f"{prefix}up", f"{prefix}down")
        )
    ]


def _contracts(name: str, kind: str) -> bool:
    """Return whether a matrix has a dimension as its input, and not as its output.

    A matrix product sums (contracts) over the input dimension of the matrix.

    Args:
        name: Name of the matrix.
        kind: The dimension, such as ``HIDDEN``.
    """
    last = name.rpartition(".")[2]
    return last in HIDDEN_IN if kind == HIDDEN else last == "down"


def _bits(coding: Coding | None, float_bytes: int) -> int:
    """Return the number of bits per weight, without the scales of quantised weights.

    Args:
        coding: Quantisation format; None for floating-point weights.
        float_bytes: Bytes of a floating-point weight.
    """
    return 8 * float_bytes if coding is None else coding.bits


def _code_bytes(coding: Coding | None, rows: int, float_bytes: int) -> int:
    """Return the bytes of the weights from ``rows`` inputs to one output, without scales.

    Args:
        coding: Quantisation format; None for floating-point weights.
        rows: Number of inputs.
        float_bytes: Bytes of a floating-point weight.
    """
    return rows * float_bytes if coding is None else coding.code_bytes(rows, 1)
