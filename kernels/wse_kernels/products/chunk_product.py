"""Product of a chunk of tokens with a tile: sums in registers, weights reused for several tokens.

For a single token, the time to read the weights is the limit
(`wse_kernels.products.vector_product`). For several tokens, the arithmetic is the limit. Here a few
sums stay in registers for all terms, and each activation and weight is read and widened once for
several products. Each sum is computed in ascending order of K.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wse_kernels.codegen.elements import constant, narrow_ir, row_pointer, widen_ir
from wse_kernels.codegen.functions import WORD, internal_function, short_loop, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, ir, types
from wse_kernels.codegen.lanes import MAX_VECTORS
from wse_kernels.codegen.vectors import SINGLES, WIDTH, fetch, load_lanes, store_lanes, whole_mask
from wse_kernels.products.tiles import ProductRows, Tile
from wse_kernels.products.vector_product import SumsAndActivations, block_bytes_of, multiply_vector, vector_function
from wse_kernels.products.weights import Lanes, Term, WeightKind

__all__ = ["multiply_chunk", "product_of"]

TOKENS, OUTPUTS = 2, 4
"""Tokens and outputs whose sums are in registers at once.

More would not fit in the registers of processors with 256-bit vectors.
"""

TERMS, MAX_TOKENS = 16, 16
"""Terms of the sums, and tokens, whose weights and activations are widened at once.

The widened values fit in the nearest caches.
"""


@intrinsic
def _multiply_compiled(typing_context: Any, views: Any, block: Any, rows: Any, tile: Any, add: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *values, wgt = cgutils.unpack_tuple(builder, args[0])
        w, K, N, *strides = cgutils.unpack_tuple(builder, args[3])
        arrays = SumsAndActivations(views.types[:2], values, args[1])
        weights = row_pointer(context, builder, views.types[2], wgt, args[1], w)[0]
        kind = WeightKind((views.types[2].dtype,), outputs=OUTPUTS)
        product_of(context, builder, arrays, args[2], (K, N), args[4], kind, [weights, *strides])
        return context.get_dummy_value()

    return types.void(views, types.int64, rows, tile, types.int64), generate


def product_of(
    context: Any,
    builder: Any,
    arrays: SumsAndActivations,
    rows: Any,
    sizes: tuple[Any, Any],
    add: Any,
    kind: WeightKind,
    weights: Sequence[Any],
) -> None:
    """Generate the LLVM instructions that multiply the activations of M tokens by a weight tile.

    Args:
        context, builder: Numba target context and LLVM builder.
        arrays: Arrays that contain the sums and the activations.
        rows: LLVM value of a `ProductRows`, which locates the tokens in these arrays.
        sizes: K and N, the numbers of inputs and of outputs of the tile.
        add: 0 to overwrite the sums, any other value to add to them.
        kind: How the weights are stored, for example as elements or as int8 codes.
        weights: LLVM values that locate the weights: pointers, then strides.
    """
    M, out, out_stride, x, x_stride = cgutils.unpack_tuple(builder, rows)
    (outs, xs), lanes = arrays.pointers(context, builder, (out, x))
    K, N = sizes
    x_stride, out_stride = (builder.mul(stride, lanes) for stride in (x_stride, out_stride))
    pointers = [outs.type, xs.type, *(pointer.type for pointer in weights[: kind.pointers])]
    in_chunks = builder.and_(
        builder.icmp_signed(">", M, word(1)), builder.icmp_signed(">=", lanes, word(WIDTH))
    )  # fmt: skip
    with builder.if_else(in_chunks) as (in_vectors, one_by_one):
        with in_vectors:
            function = _chunk_function(builder.module, arrays.element_types, kind, pointers)
            builder.call(function, [outs, xs, *weights, M, K, N, x_stride, out_stride, add, lanes])
        with one_by_one:
            size = block_bytes_of(context, builder, arrays.views[0], arrays.values[0])
            function = vector_function(builder.module, arrays.element_types, kind._replace(outputs=1), pointers)
            with cgutils.for_range(builder, M, intp=WORD) as m:
                sums, token = (
                    builder.gep(pointer, [builder.mul(m.index, stride)])
                    for pointer, stride in ((outs, out_stride), (xs, x_stride))
                )
                builder.call(function, [sums, token, *weights, K, N, add, lanes, size])


def _chunk_function(module: Any, element_types: tuple[Any, Any], kind: WeightKind, pointers: Sequence[Any]) -> Any:
    """Return the LLVM function that multiplies a chunk of tokens by a weight tile.

    The function works on at most TERMS inputs and MAX_TOKENS tokens at a time:

    1. Widen their activations to float32 in scratch memory, where the values of one vector of lanes
       (neighbouring PEs) are contiguous.
    2. For OUTPUTS outputs at a time, widen the weights in the same manner.
    3. For TOKENS tokens at a time, load the sums, add the products in registers, and store the
       sums.

    If at most half of OUTPUTS are left, the last group is half as wide. If fewer tokens or outputs
    are left than a group has, the last one is repeated. All repetitions compute the same sum, from
    the value before any of them is stored. The last vector may overlap the lanes of the one before.
    """

    weight_arguments = kind.pointers + kind.numbers

    def body(builder: Any, outs: Any, xs: Any, *arguments: Any) -> None:
        M, K, N, x_stride, out_stride, add, lanes = arguments[weight_arguments:]
        weights = kind.weights(builder, arguments[:weight_arguments], lanes, TERMS)
        code = _CodeGenerator(builder, (outs, xs), element_types, weights, (x_stride, out_stride, lanes))
        zero, last_vector = word(0), builder.sub(lanes, word(WIDTH))
        clears = builder.icmp_signed("==", add, zero)
        with (
            builder.if_then(builder.and_(clears, builder.icmp_signed("<=", K, zero))),
            short_loop(builder, zero, M) as m,
        ):
            code.clear(m, N)
        with (
            short_loop(builder, zero, K, TERMS) as first_term,
            short_loop(builder, zero, M, MAX_TOKENS) as first_token,
        ):
            terms = _minimum(builder, builder.sub(K, first_term), word(TERMS))
            count = _minimum(builder, builder.sub(M, first_token), word(MAX_TOKENS))
            code.terms, code.tokens = terms, count
            code.starts = builder.and_(clears, builder.icmp_signed("==", first_term, zero))
            with short_loop(builder, zero, terms) as k, _vectors(builder, lanes) as vector:  # 1
                term = Term(k, builder.add(first_term, k))
                weights.prepare(term, vector)
                with short_loop(builder, zero, count) as m:
                    code.widen_activation(builder.add(first_token, m), term, m, vector)
            with short_loop(builder, zero, N, OUTPUTS) as n:
                outputs = _block_indices(builder, n, N, OUTPUTS)
                with short_loop(builder, zero, terms) as k, _vectors(builder, lanes) as vector:  # 2
                    for j, output in enumerate(outputs):
                        code.widen_weights(Term(k, builder.add(first_term, k)), output, word(j), vector)
                with (  # 3
                    short_loop(builder, zero, lanes, WIDTH) as begin,
                    short_loop(builder, zero, count, TOKENS) as m,
                ):
                    tokens = _block_indices(builder, m, count, TOKENS)
                    lane = _minimum(builder, begin, last_vector)
                    is_half = builder.icmp_signed("<=", builder.sub(N, n), word(OUTPUTS // 2))
                    with builder.if_else(is_half) as (half, whole):
                        with half:
                            code.multiply(first_token, tokens, outputs[: OUTPUTS // 2], begin, lane)
                        with whole:
                            code.multiply(first_token, tokens, outputs, begin, lane)

    name = "wse_multiply_chunk_" + "_".join(map(str, (*element_types, kind)))
    return internal_function(module, name, pointers, kind.numbers + 7, body, inlined=False)


@contextmanager
def _vectors(builder: Any, lanes: Any) -> Iterator[Lanes]:
    """Generate a loop over the vectors of lanes (neighbouring PEs) that cover a block of PEs.

    The last vector may overlap the one before.

    Yields:
        Index and first lane of the vector, as LLVM values.
    """
    with short_loop(builder, word(0), lanes, WIDTH) as begin:
        first = _minimum(builder, begin, builder.sub(lanes, word(WIDTH)))
        yield Lanes(builder.udiv(begin, word(WIDTH)), first)


def _block_indices(builder: Any, first: Any, end: Any, count: int) -> list[Any]:
    """Return the indices ``first``, ``first`` + 1, ... as LLVM values, limited to ``end`` - 1.

    There are ``count`` indices. Those beyond ``end`` - 1 are replaced by ``end`` - 1.
    """
    last = builder.sub(end, word(1))
    return [_minimum(builder, builder.add(first, word(i)), last) for i in range(count)]


def _minimum(builder: Any, first: Any, second: Any) -> Any:
    """Generate LLVM instructions for the minimum of two signed integers."""
    return builder.select(builder.icmp_signed("<", first, second), first, second)


class _CodeGenerator:
    """Generator of the LLVM code that multiplies a chunk of tokens by a tile of weights.

    Its methods generate code for one vector of lanes (neighbouring PEs) at a time.
    """

    def __init__(self, builder: Any, pointers: Any, element_types: tuple[Any, Any], weights: Any, numbers: Any) -> None:
        self.builder, (self.outs, self.xs), (self.acc, self.act) = builder, pointers, element_types
        self.weights, (self.x_stride, self.out_stride, self.lanes) = weights, numbers
        self.terms, self.tokens = word(TERMS), word(MAX_TOKENS)  # stored in scratch memory
        self.starts = ir.Constant(ir.IntType(1), 0)  # whether sums start with these terms
        self.widened, self.activations = (
            cgutils.alloca_once(builder, SINGLES, size=word(TERMS * element_count * MAX_VECTORS))
            for element_count in (OUTPUTS, MAX_TOKENS)
        )

    def clear(self, token: Any, N: Any) -> None:
        """Generate code that sets the ``N`` sums of a token to 0."""
        builder = self.builder
        size = builder.mul(builder.mul(N, self.lanes), word(self.acc.bitwidth // 8))
        cgutils.memset(builder, self.at(self.outs, word(0), (token, self.out_stride)), size, 0)

    def widen_activation(self, token: Any, term: Term, m: Any, vector: Lanes) -> None:
        """Generate code that widens an activation to float32 and stores it in scratch memory.

        Args:
            token: Index of the token in the whole chunk.
            term: Input feature of the activation, which is one term of the sums.
            m: Index of the token in scratch memory.
            vector: Lanes (neighbouring PEs) whose activations are widened.
        """
        value = self.load(self.at(self.xs, vector.first, (token, self.x_stride), (term.k, self.lanes)), self.act)
        self.builder.store(value, self.activation_place(vector.vector, m, term.number), align=WIDTH)

    def widen_weights(self, term: Term, output: Any, j: Any, vector: Lanes) -> None:
        """Generate code that widens weights to float32, and prefetches later weights.

        Args:
            term: Input feature of the weights, which is one term of the sums.
            output: Index of the output in the whole tile.
            j: Index of the output in scratch memory, where the result is stored.
            vector: Lanes (neighbouring PEs) whose weights are widened.
        """
        builder = self.builder
        fetch(builder, self.weights.place(term.k, builder.add(output, word(OUTPUTS)), vector), word(0))
        value = self.weights.load(term, output, vector, j)
        builder.store(value, self.weight_place(vector.vector, term.number, j), align=WIDTH)

    def multiply(self, first_token: Any, tokens: list[Any], outputs: list[Any], begin: Any, lane: Any) -> None:
        """Generate code that adds products to the sums of some outputs and tokens.

        The activations and weights come from scratch memory.

        1. Load the sums into registers.
        2. Loop over the terms in scratch memory, and add each product to its sum.
        3. Store the sums. Lanes that this vector has in common with the vector before keep their
           values, because their products have already been added.

        Args:
            first_token: Index of the first token that is in scratch memory.
            tokens: Indices of the tokens in scratch memory.
            outputs: Indices of the outputs.
            begin: First lane (PE) whose sums this vector changes.
            lane: First lane of the vector. It is lower than ``begin`` if the vector overlaps the
                one before.
        """
        builder, zero, acc = self.builder, word(0), self.acc
        vector = builder.udiv(begin, word(WIDTH))
        rows = [builder.add(first_token, m) for m in tokens]
        outs = [self.at(self.outs, lane, (row, self.out_stride), (n, self.lanes)) for row in rows for n in outputs]
        # 1. Load the sums.
        sums = self.first_sums(outs)
        # 2. Loop over the terms, with the sums as loop-carried values.
        entry_block = builder.block
        loop, exit_block = builder.append_basic_block("k"), builder.append_basic_block("k_end")
        builder.branch(loop)
        builder.position_at_end(loop)
        k, totals = builder.phi(WORD), [builder.phi(SINGLES) for _ in outs]
        new_sums: list[Any] = []
        weights = [builder.load(self.weight_place(vector, k, word(j)), align=WIDTH) for j, _ in enumerate(outputs)]
        for m in tokens:
            value = builder.load(self.activation_place(vector, m, k), align=WIDTH)
            for weight in weights:
                total = builder.fadd(totals[len(new_sums)], builder.fmul(value, weight))
                new_sums.append(widen_ir(builder, acc, narrow_ir(builder, acc, total)))
        next_k = builder.add(k, word(1))
        for phi, first, after_one in zip((k, *totals), (zero, *sums), (next_k, *new_sums), strict=True):
            phi.add_incoming(first, entry_block)
            phi.add_incoming(after_one, loop)
        builder.cbranch(builder.icmp_signed("<", next_k, self.terms), loop, exit_block)
        # 3. Store the sums.
        builder.position_at_end(exit_block)
        with builder.if_else(builder.icmp_signed("==", begin, lane)) as (own_lanes, shared_lanes):
            with own_lanes:
                for out, value in zip(outs, new_sums, strict=True):
                    self.store(value, out, acc)
            with shared_lanes:
                was_added = whole_mask(builder, builder.sub(begin, lane))
                blended = [
                    builder.select(was_added, self.load(out, acc), value)
                    for out, value in zip(outs, new_sums, strict=True)
                ]
                for out, value in zip(outs, blended, strict=True):
                    self.store(value, out, acc)

    def first_sums(self, outs: list[Any]) -> list[Any]:
        """Return the initial values of sums: 0 for the first terms, else the values stored so far.

        Args:
            outs: Pointers to the stored sums.
        """
        builder, start = self.builder, self.builder.block
        with builder.if_then(builder.not_(self.starts)):
            stored_sums, load_block = [self.load(out, self.acc) for out in outs], builder.block
        sums = [builder.phi(SINGLES) for _ in outs]
        for value, phi in zip(stored_sums, sums, strict=True):
            phi.add_incoming(constant(SINGLES, 0.0), start)
            phi.add_incoming(value, load_block)
        return sums

    def at(self, base: Any, lane: Any, *indices: tuple[Any, Any]) -> Any:
        """Return a pointer to an element of an array whose rows contain one element per lane (PE).

        Args:
            base: Pointer to the array.
            lane: Index of the lane.
            indices: (index, stride) pairs. The offset of the row is the sum of their products.
        """
        for index, stride in indices:
            lane = self.builder.add(lane, self.builder.mul(index, stride))
        return self.builder.gep(base, [lane])

    def weight_place(self, vector: Any, k: Any, j: Any) -> Any:
        """Return a pointer to a vector of weights in scratch memory, ``[vector, term, output]``."""
        return self.scratch(self.widened, (vector, self.terms), (k, word(OUTPUTS)), (j, word(1)))

    def activation_place(self, vector: Any, m: Any, k: Any) -> Any:
        """Return a pointer to activations in scratch memory, ``[vector, token, term]``."""
        return self.scratch(self.activations, (vector, self.tokens), (m, self.terms), (k, word(1)))

    def scratch(self, base: Any, *indices: tuple[Any, Any]) -> Any:
        """Return a pointer to an element of an array in scratch memory.

        Elements are packed without gaps. Strides of a constant power of two would map all vectors
        and tokens to few sets of the CPU cache.

        Args:
            base: Pointer to the array.
            indices: For each axis, the index and the number that the offset so far plus this index
                is multiplied by: the extent of the next axis, or 1 for the last axis.
        """
        builder, place = self.builder, word(0)
        for index, extent_inside in indices:
            place = builder.mul(builder.add(place, index), extent_inside)
        return builder.gep(base, [place])

    def load(self, pointer: Any, element_type: Any) -> Any:
        """Load a vector of stored elements and widen it to float32."""
        return widen_ir(self.builder, element_type, load_lanes(self.builder, pointer, None))

    def store(self, value: Any, pointer: Any, element_type: Any) -> None:
        """Round a vector of float32 to the stored type and store it."""
        store_lanes(self.builder, narrow_ir(self.builder, element_type, value), pointer, None)


def _multiply_by_tokens(views: Any, block: int, rows: ProductRows, tile: Tile, add: int) -> None:
    """Multiply the activations of M tokens by a weight tile in plain Python. See `multiply_chunk`.

    Args:
        views: SRAM arrays of the sums, the activations and the weights.
        block: Index of the block of PEs.
        rows: Number of tokens M, and where their sums and activations are stored.
        tile: Address, sizes and strides of the weights.
        add: 0 to overwrite the sums, any other value to add to them.
    """
    for m in range(rows.M):
        multiply_vector(
            views, None, block, rows.out + m * rows.out_stride, rows.x + m * rows.x_stride, tile, add
        )  # fmt: skip


multiply_chunk: Any = _multiply_by_tokens if config.DISABLE_JIT else _multiply_compiled
"""Multiply M tokens by a tile of elements.

The call is ``multiply_chunk((acc, act, wgt), block, rows, tile, add)``, where ``rows`` is a
`ProductRows` and ``tile`` a `Tile`. For m < M and n < N, acc[out + m out_stride + n] becomes the
sum of act[x + m x_stride + k] * wgt[w + k k_stride + n n_stride] over k < K, in ascending order.

- ``add``: 0 to overwrite the sums; any other value to begin with the stored sums.
- Indices are rows ``[block, row, :]`` of the views. They are not checked, and all lanes take part.
- Each product is rounded to float32, each sum to float32 and then to the type of ``acc``.
"""
