"""Generator of LLVM code that multiplies a chunk of tokens by a weight tile."""

from __future__ import annotations

from typing import Any

from wse_kernels.codegen.elements import constant, narrow_ir, widen_ir
from wse_kernels.codegen.functions import WORD, word
from wse_kernels.codegen.jit import cgutils, ir
from wse_kernels.codegen.lanes import MAX_VECTORS
from wse_kernels.codegen.vectors import SINGLES, WIDTH, fetch, load_lanes, store_lanes, whole_mask
from wse_kernels.products.weights import Lanes, Term

TOKENS, OUTPUTS = 2, 4
"""Tokens and outputs whose sums are in registers at once.

More would not fit in the registers of processors with 256-bit vectors.
"""

TERMS, MAX_TOKENS = 16, 16
"""Terms of the sums, and tokens, whose weights and activations are widened at once.

The widened values fit in the nearest caches.
"""


class ChunkGenerator:
    """Generator of LLVM code that multiplies a chunk of tokens by a weight tile.

    Its methods generate code for one vector of lanes (neighbouring PEs) at a time. `chunk_product`
    sets ``terms``, ``tokens`` and ``starts`` before it generates code for the next terms and tokens.

    Attributes:
        terms, tokens: Numbers of terms and of tokens in scratch memory.
        starts: LLVM Boolean: whether the sums start at 0 with these terms.
        widened, activations: Scratch memory for weights and for activations, as float32.
    """

    def __init__(self, builder: Any, pointers: Any, element_types: tuple[Any, Any], weights: Any, numbers: Any) -> None:
        self.builder, (self.outs, self.xs), (self.acc, self.act) = builder, pointers, element_types
        self.weights, (self.x_stride, self.out_stride, self.lanes) = weights, numbers
        self.terms, self.tokens = word(TERMS), word(MAX_TOKENS)
        self.starts = ir.Constant(ir.IntType(1), 0)
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
        """Generate code that converts an activation to float32 and stores it in scratch memory.

        Args:
            token: Index of the token in the whole chunk.
            term: Input feature of the activation, that is, one term of the sums.
            m: Index of the token in scratch memory.
            vector: Lanes (neighbouring PEs) whose activations are converted.
        """
        value = self.load(self.at(self.xs, vector.first, (token, self.x_stride), (term.k, self.lanes)), self.act)
        self.builder.store(value, self.activation_place(vector.vector, m, term.number), align=WIDTH)

    def widen_weights(self, term: Term, output: Any, j: Any, vector: Lanes) -> None:
        """Generate code that converts weights to float32, and prefetches later weights.

        Args:
            term: Input feature of the weights, that is, one term of the sums.
            output: Index of the output in the whole tile.
            j: Index of the output in scratch memory, where the result is stored.
            vector: Lanes (neighbouring PEs) whose weights are converted.
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
        3. Store the sums. Lanes that this vector shares with the previous vector keep their values,
           because their products have already been added.

        Args:
            first_token: Index of the first token in scratch memory.
            tokens: Indices of the tokens in scratch memory.
            outputs: Indices of the outputs.
            begin: First lane (PE) whose sums this vector changes.
            lane: First lane of the vector. It is lower than ``begin`` if the vector overlaps the
                previous one.
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
        """Generate code for the initial values of sums.

        The initial values are 0 for the first terms of the product, and the sums stored so far for
        later terms.

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
        """Return a pointer to the weights of input ``k`` and output ``j`` in scratch memory.

        Scratch memory contains the weights as an array ``[vector, term, output]`` of vectors over
        lanes (PEs).
        """
        return self.scratch(self.widened, (vector, self.terms), (k, word(OUTPUTS)), (j, word(1)))

    def activation_place(self, vector: Any, m: Any, k: Any) -> Any:
        """Return a pointer to the activations of token ``m`` and input ``k`` in scratch memory.

        Scratch memory contains the activations as an array ``[vector, token, term]`` of vectors
        over lanes (PEs).
        """
        return self.scratch(self.activations, (vector, self.tokens), (m, self.terms), (k, word(1)))

    def scratch(self, base: Any, *indices: tuple[Any, Any]) -> Any:
        """Return a pointer to an element of an array that is packed without gaps in scratch memory.

        Arrays are packed because constant strides that are powers of two would map all vectors and
        tokens to a few sets of the CPU cache. The offset is computed by Horner's rule: for each axis,
        add the index and multiply by the factor.

        Args:
            base: Pointer to the array.
            indices: (index, factor) for each axis. The factor is the extent of the next axis, or 1
                for the last axis.
        """
        builder, place = self.builder, word(0)
        for index, extent_inside in indices:
            place = builder.mul(builder.add(place, index), extent_inside)
        return builder.gep(base, [place])

    def load(self, pointer: Any, element_type: Any) -> Any:
        """Generate code that loads a vector of stored elements and converts it to float32."""
        return widen_ir(self.builder, element_type, load_lanes(self.builder, pointer, None))

    def store(self, value: Any, pointer: Any, element_type: Any) -> None:
        """Generate code that rounds a float32 vector to the stored type and stores it."""
        store_lanes(self.builder, narrow_ir(self.builder, element_type, value), pointer, None)
