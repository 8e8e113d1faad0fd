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

from wse_kernels.codegen.elements import row_pointer
from wse_kernels.codegen.functions import WORD, internal_function, minimum, short_loop, word
from wse_kernels.codegen.jit import cgutils, config, intrinsic, types
from wse_kernels.codegen.vectors import WIDTH
from wse_kernels.products.chunk_generator import MAX_TOKENS, OUTPUTS, TERMS, TOKENS, ChunkGenerator
from wse_kernels.products.tiles import ProductRows, Tile
from wse_kernels.products.vector_product import SumsAndActivations, block_bytes_of, multiply_vector, vector_function
from wse_kernels.products.weights import Lanes, Term, WeightKind


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
        sizes: K and N, the numbers of inputs and outputs of the tile.
        add: 0 to overwrite the sums, any other value to add to them.
        kind: How the weights are stored, for example as elements or as int8 codes.
        weights: LLVM values that locate the weights: pointers, then strides.
    """
    M, out, out_stride, x, x_stride = cgutils.unpack_tuple(builder, rows)
    (outs, xs), lanes = arrays.pointers(context, builder, (out, x))
    K, N = sizes
    x_stride, out_stride = (builder.mul(stride, lanes) for stride in (x_stride, out_stride))
    pointers = [outs.type, xs.type, *(pointer.type for pointer in weights[: kind.pointer_count])]
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

    1. Convert their activations to float32 in scratch memory, where the values of one vector of
       lanes (neighbouring PEs) are contiguous.
    2. For OUTPUTS outputs at a time, convert the weights in the same way.
    3. For TOKENS tokens at a time, load the sums, add the products in registers, and store the
       sums.

    If at most half of OUTPUTS are left, the last group is half as wide. If fewer tokens or outputs
    are left than a group contains, the last one is repeated. All repetitions compute the same sum,
    because they start from the value before any of them is stored. The last vector may overlap the
    lanes of the previous one.

    Args:
        module: LLVM module that receives the function.
        element_types: Numba types of the sums and the activations.
        kind: How the weights are stored, for example as elements or as int8 codes.
        pointers: LLVM types of the function's pointers: sums, activations, and pointers that locate
            the weights.
    """

    weight_arguments = kind.pointer_count + kind.integer_count

    def body(builder: Any, outs: Any, xs: Any, *arguments: Any) -> None:
        M, K, N, x_stride, out_stride, add, lanes = arguments[weight_arguments:]
        weights = kind.weights(builder, arguments[:weight_arguments], lanes, TERMS)
        code = ChunkGenerator(builder, (outs, xs), element_types, weights, (x_stride, out_stride, lanes))
        zero, last_vector = word(0), builder.sub(lanes, word(WIDTH))
        clears = builder.icmp_signed("==", add, zero)
        with (
            builder.if_then(builder.and_(clears, builder.icmp_signed("<=", K, zero))),
            short_loop(builder, zero, M) as m,
        ):
            code.clear(m, N)
        with short_loop(builder, zero, K, TERMS) as first_term, short_loop(builder, zero, M, MAX_TOKENS) as first_token:
            terms = minimum(builder, builder.sub(K, first_term), word(TERMS))
            count = minimum(builder, builder.sub(M, first_token), word(MAX_TOKENS))
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
                    lane = minimum(builder, begin, last_vector)
                    is_half = builder.icmp_signed("<=", builder.sub(N, n), word(OUTPUTS // 2))
                    with builder.if_else(is_half) as (half, whole):
                        with half:
                            code.multiply(first_token, tokens, outputs[: OUTPUTS // 2], begin, lane)
                        with whole:
                            code.multiply(first_token, tokens, outputs, begin, lane)

    name = "wse_multiply_chunk_" + "_".join(map(str, (*element_types, kind)))
    return internal_function(module, name, pointers, kind.integer_count + 7, body, inlined=False)


@contextmanager
def _vectors(builder: Any, lanes: Any) -> Iterator[Lanes]:
    """Generate a loop over the vectors of lanes (neighbouring PEs) that cover a block of PEs.

    The last vector may overlap the previous one.

    Yields:
        Index and first lane of each vector, as LLVM values.
    """
    with short_loop(builder, word(0), lanes, WIDTH) as begin:
        first = minimum(builder, begin, builder.sub(lanes, word(WIDTH)))
        yield Lanes(builder.udiv(begin, word(WIDTH)), first)


def _block_indices(builder: Any, first: Any, end: Any, count: int) -> list[Any]:
    """Return ``count`` consecutive indices as LLVM values, starting with ``first``.

    Indices beyond ``end`` - 1 are replaced by ``end`` - 1.
    """
    last = builder.sub(end, word(1))
    return [minimum(builder, builder.add(first, word(i)), last) for i in range(count)]


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
