"""Weights of a tile as float32 vectors, converted in registers from elements or from codes.

If codes have one scale per group of inputs, each code is multiplied by the scale of its group, its
factor. Groups begin and end at different rows on every PE, so the lanes of a vector may be in
different groups. The factors of a vector are kept as long as all of its lanes stay in their groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wse_kernels.codegen.elements import constant, narrow_ir, rounded_product_ir, widen_ir
from wse_kernels.codegen.functions import WORD, short_loop, word
from wse_kernels.codegen.jit import cgutils, ir
from wse_kernels.codegen.lanes import MAX_VECTORS
from wse_kernels.codegen.vectors import BYTE, SINGLES, WIDTH, load_lanes, max_lane, min_lane, splat
from wse_kernels.products.codes import CODES_PER_BYTE, FP8_BLOCKS, GROUPED, value_ir

WIDTHS = ir.VectorType(ir.IntType(32), WIDTH)
GROUPS = ir.VectorType(BYTE, WIDTH)


class Lanes(NamedTuple):
    """Vector of lanes (neighbouring PEs of a block) that generated code processes together.

    Attributes:
        vector: Index of the vector in the block.
        first: First lane.
        mask: LLVM mask of the existing lanes if the vector is incomplete, else None.
    """

    vector: Any
    first: Any
    mask: Any = None


class Term(NamedTuple):
    """One of the products (an activation times a weight) that are added up for an output.

    Attributes:
        number: Index of the term among the terms computed at once.
        k: Input row of the weight.
        half: ``k`` modulo 2 if the generator knows it as a constant, else None. If two weights
            share a byte, 0 means the low half and 1 the high half.
        even: ``k`` minus ``half``; None if ``half`` is None.
    """

    number: Any
    k: Any
    half: Any = None
    even: Any = None


class ElementWeights:
    """Generator of the code that loads floating-point weights.

    Three arguments of the generated function locate the weights: a pointer to them, and the strides
    of inputs and outputs in elements.
    """

    def __init__(self, builder: Any, kind: WeightKind, arguments: Sequence[Any], lanes: Any, terms: int) -> None:
        self.builder, (self.element_type,) = builder, kind.element_types
        self.pointer, k_stride, n_stride = arguments
        self.inputs_are_adjacent = builder.icmp_signed("<", k_stride, n_stride)
        self.k_stride, self.n_stride = builder.mul(k_stride, lanes), builder.mul(n_stride, lanes)
        self.term_bytes = word(self.element_type.bitwidth // 8)

    def prepare(self, term: Term, lanes: Lanes) -> None:
        """Do nothing: weights that are stored as elements need no scales."""

    def place(self, k: Any, n: Any, lanes: Lanes) -> Any:
        """Return a pointer to the weights of input ``k`` and output ``n`` in a vector of PEs."""
        builder = self.builder
        row = builder.add(builder.mul(k, self.k_stride), builder.mul(n, self.n_stride))
        return builder.gep(self.pointer, [builder.add(row, lanes.first)])

    def load(self, term: Term, n: Any, lanes: Lanes, output: Any) -> Any:
        """Generate code that loads weights as float32.

        Args:
            term: Term of the sums, which specifies the input row.
            n: Index of the output.
            lanes: Vector of lanes (PEs) whose weights are loaded.
            output: Not used for this kind of weight.
        """
        elements = load_lanes(self.builder, self.place(term.k, n, lanes), lanes.mask)
        return widen_ir(self.builder, self.element_type, elements)


class CodeWeights:
    """Generator of the code that loads quantised weights and applies their scales, if any.

    Scales, and weights multiplied by their scales, are rounded to the activation type. In formats
    without groups, all rows belong to the first group. The generated function takes these arguments
    for the weights:

    1. Pointers to the weights, to the group of each row, to the number of outputs in each block
       that shares a scale, and to the scales.
    2. Strides in elements: between rows of weights, and between the scales of groups.
    3. Number of groups, and number of output blocks.
    """

    def __init__(self, builder: Any, kind: WeightKind, arguments: Sequence[Any], lanes: Any, terms: int) -> None:
        self.builder, self.coding, (self.act, self.scale) = builder, kind.coding, kind.element_types
        self.codes, self.groups, self.widths, self.scales, *strides, self.group_count, self.runs = arguments
        self.lanes, (self.row, self.group_row) = lanes, (builder.mul(stride, lanes) for stride in strides)
        self.scaled = kind.scaled
        self.inputs_are_adjacent = ir.Constant(ir.IntType(1), 0)
        self.term_bytes = word(1)
        if self.scaled:
            self.ranges = cgutils.alloca_once(builder, WORD, size=word(2 * terms * MAX_VECTORS))
            self.factors = cgutils.alloca_once(builder, SINGLES, size=word(kind.outputs * MAX_VECTORS))

    def prepare(self, term: Term, lanes: Lanes) -> None:
        """Generate code that determines which scales must be read before a term is computed.

        A group of neighbouring rows of weights shares scales. A PE therefore reads scales only in
        two cases:

        - The term is the first of several terms that are computed together.
        - The row of the term is in another group than the previous row.

        The generated code stores a range of groups, which includes the group of each PE that must
        read scales. The code from `load` then reads the scales.

        Args:
            term: Product of an activation and a weight, which specifies the row of the weight.
            lanes: Vector of lanes (neighbouring PEs).
        """
        if not self.scaled:
            return
        builder = self.builder
        is_first_term = builder.icmp_signed("==", term.number, word(0))
        groups = self._groups(term.k, lanes)
        previous_groups = self._groups(builder.select(is_first_term, term.k, builder.sub(term.k, word(1))), lanes)
        has_changed = builder.or_(splat(builder, is_first_term), builder.icmp_unsigned("!=", groups, previous_groups))
        low, high = self._range(term, lanes)
        builder.store(word(0), low)
        builder.store(word(0), high)
        with builder.if_then(cgutils.is_not_null(builder, builder.bitcast(has_changed, ir.IntType(WIDTH)))):
            first, last = (
                builder.zext(lane_of(builder, builder.select(has_changed, groups, constant(groups.type, other))), WORD)
                for lane_of, other in ((min_lane, 255), (max_lane, 0))
            )
            end = builder.add(last, word(1))
            last_group = builder.sub(self.group_count, word(1))
            is_outside = builder.and_(is_first_term, builder.icmp_signed(">", first, last_group))
            builder.store(builder.select(is_outside, last_group, first), low)
            builder.store(builder.select(builder.icmp_signed("<", end, self.group_count), end, self.group_count), high)

    def place(self, k: Any, n: Any, lanes: Lanes) -> Any:
        """Return a pointer to the quantised weights of input ``k`` and output ``n``.

        The pointer refers to the weight of the first PE in a vector of lanes (neighbouring PEs).
        """
        builder = self.builder
        row = builder.mul(builder.udiv(k, word(CODES_PER_BYTE[self.coding])), self.row)
        return builder.gep(self.codes, [builder.add(row, self._lane(n, lanes))])

    def load(self, term: Term, n: Any, lanes: Lanes, output: Any) -> Any:
        """Generate code that loads weights as float32, multiplied by their scales if they have any.

        Args:
            term: Term of the sums, which specifies the input row.
            n: Index of the output.
            lanes: Vector of lanes (PEs) whose weights are loaded.
            output: Index of the output among the outputs computed at once.
        """
        builder = self.builder
        row, half = (term.k, term.k) if term.half is None else (term.even, term.half)
        value = value_ir(builder, self.coding, load_lanes(builder, self.place(row, n, lanes), lanes.mask), half)
        if not self.scaled:
            return value
        factors = builder.gep(self.factors, [builder.add(builder.mul(output, word(MAX_VECTORS)), lanes.vector)])
        low, high = (builder.load(place) for place in self._range(term, lanes))
        with builder.if_then(builder.icmp_unsigned("<", low, high)):
            is_first_term = builder.icmp_signed("==", term.number, word(0))
            builder.store(builder.select(is_first_term, constant(SINGLES, 0.0), builder.load(factors)), factors)
            groups = self._groups(term.k, lanes)
            with short_loop(builder, low, high) as group:
                in_group = builder.icmp_unsigned("==", groups, splat(builder, builder.trunc(group, BYTE)))
                self._load_scales(group, in_group, n, lanes, factors)
        return rounded_product_ir(builder, self.act, builder.fmul(value, builder.load(factors)))

    def _load_scales(self, group: Any, in_group: Any, n: Any, lanes: Lanes, factors: Any) -> None:
        """Generate code that reads the scales of one group of rows, for the PEs that need them.

        The scale becomes the factor by which the weights of a lane (PE) are multiplied.

        Args:
            group: Index of the group.
            in_group: Mask of the lanes whose row is in this group.
            n: Index of the output.
            lanes: Vector of lanes.
            factors: Pointer to the factors of the vector.
        """
        builder, row = self.builder, self.builder.mul(group, self.group_row)
        if self.coding != FP8_BLOCKS:
            self._store_factors(builder.add(row, self._lane(n, lanes)), in_group, lanes, factors)
            return
        output = splat(builder, builder.trunc(n, WIDTHS.element))
        begin = cgutils.alloca_once_value(builder, constant(WIDTHS, 0))
        with cgutils.for_range(builder, self.runs, intp=WORD) as run:
            place = builder.gep(self.widths, [self._lane(run.index, lanes)])
            first = builder.load(begin)
            end = builder.add(first, builder.zext(load_lanes(builder, place, lanes.mask), WIDTHS))
            builder.store(end, begin)
            in_run = builder.and_(
                builder.icmp_unsigned("<=", first, output), builder.icmp_unsigned("<", output, end)
            )  # fmt: skip
            at = builder.add(row, self._lane(run.index, lanes))
            self._store_factors(at, builder.and_(in_group, in_run), lanes, factors)

    def _store_factors(self, at: Any, mask: Any, lanes: Lanes, factors: Any) -> None:
        """Generate code that loads scales and stores them as the factors of the masked lanes.

        Args:
            at: Index of the scales.
            mask: Lanes (PEs) whose factors are set.
            lanes: Vector of lanes.
            factors: Pointer to the factors of the vector.
        """
        builder = self.builder
        scales = widen_ir(builder, self.scale, load_lanes(builder, builder.gep(self.scales, [at]), lanes.mask))
        if self.scale != self.act:
            scales = widen_ir(builder, self.act, narrow_ir(builder, self.act, scales))
        builder.store(builder.select(mask, scales, builder.load(factors)), factors)

    def _groups(self, k: Any, lanes: Lanes) -> Any:
        """Generate code that loads which group of scales applies to row ``k``, for a vector of PEs.

        The group is 0 in formats without groups.
        """
        if self.coding not in GROUPED:
            return constant(GROUPS, 0)
        return load_lanes(self.builder, self.builder.gep(self.groups, [self._lane(k, lanes)]), lanes.mask)

    def _lane(self, row: Any, lanes: Lanes) -> Any:
        """Generate code for the flat index of a row's element in the first lane of a vector.

        Args:
            row: Index of the row. A row has one element per lane (PE of the block).
            lanes: The vector of lanes.
        """
        return self.builder.add(self.builder.mul(row, self.lanes), lanes.first)

    def _range(self, term: Term, lanes: Lanes) -> tuple[Any, Any]:
        """Return pointers to the range of scale groups that must be read before a term is computed.

        A scale group consists of neighbouring rows of weights that share scales. `prepare` has
        stored the range.

        Returns:
            Pointers to the index of the first group, and to the index after the last group.
        """
        builder = self.builder
        number = builder.add(builder.mul(term.number, word(MAX_VECTORS)), lanes.vector)
        low = builder.gep(self.ranges, [builder.mul(number, word(2))])
        return low, builder.gep(low, [word(1)])


class WeightKind(NamedTuple):
    """Storage format of a product's weights, which determines the generated code.

    Attributes:
        element_types: Numba types of stored elements: the weight type for floating-point weights,
            or the types of activations and scales for quantised weights.
        coding: Number that identifies the quantised weight format, or -1 for floating-point
            weights.
        scaled: Whether each quantised weight is multiplied by its scale.
        outputs: Number of outputs computed at once.
    """

    element_types: tuple[Any, ...]
    coding: int = -1
    scaled: bool = False
    outputs: int = 1

    def __str__(self) -> str:
        """Return a name of the format, for the names of generated LLVM functions."""
        return "_".join(map(str, (*self.element_types, *([self.coding, self.scaled] if self.coding >= 0 else []))))

    @property
    def terms_per_byte(self) -> int:
        """Number of input rows whose weights are packed into the same byte.

        It is 2 for 4-bit weights, and 1 for 8-bit and floating-point weights.
        """
        return 1 if self.coding < 0 else CODES_PER_BYTE[self.coding]

    @property
    def pointer_count(self) -> int:
        """Number of pointers in the arguments of a generated function that locate the weights.

        It is 1 for floating-point weights. Quantised weights need four pointers: to the weights, to
        the group of each row, to the sizes of the output blocks, and to the scales.
        """
        return 1 if self.coding < 0 else 4

    @property
    def integer_count(self) -> int:
        """Number of integers in the arguments of a generated function that describe the weights.

        They follow the pointers. Floating-point weights need two strides. Quantised weights need
        two strides, the number of groups of rows, and the number of output blocks.
        """
        return 2 if self.coding < 0 else 4

    def weights(self, builder: Any, arguments: Sequence[Any], lanes: Any, terms: int) -> ElementWeights | CodeWeights:
        """Return an object that generates code to load the weights.

        Args:
            builder: LLVM builder of the function.
            arguments: Arguments of the function that locate the weights.
            lanes: Number of lanes (PEs) per block.
            terms: Number of terms computed at once.
        """
        weights_class = ElementWeights if self.coding < 0 else CodeWeights
        return weights_class(builder, self, arguments, lanes, terms)
