"""Generator of LLVM code that multiplies one token by a weight tile.

- A few terms at a time are added to sums in registers, and the activations of each term are widened
  once for all outputs.
- The last lanes of a row, which do not fill a vector, are loaded and stored under a mask. If only
  some lanes are chosen, the other lanes of their vectors are computed as well but keep their
  values.
- Weights are prefetched into the second-level cache. For a small tile these are the weights of the
  next block, which are far away in memory, where no hardware prefetcher looks for them. For a large
  tile they are weights a fixed distance ahead, and for chosen lanes a short distance ahead in the
  row.
"""

from __future__ import annotations

from typing import Any, Final

from wse_kernels.codegen.elements import constant, narrow_ir, widen_ir
from wse_kernels.codegen.functions import WORD, word
from wse_kernels.codegen.jit import cgutils, ir
from wse_kernels.codegen.lanes import MAX_VECTORS
from wse_kernels.codegen.vectors import PREFETCH_BYTES, SINGLES, WIDTH, fetch, load_lanes, rest_mask, store_lanes
from wse_kernels.products.weights import Lanes, Term, WeightKind

TERMS_OF_ROWS: Final = 8
"""Terms added to a sum while it is in a register, if its weights are not adjacent in memory."""
MAX_TERMS: Final = 32
"""Terms added to a sum while it is in a register, if its weights are adjacent in memory."""
LARGE_TILE_BYTES: Final = 1 << 18
"""Size above which the weights of a tile itself are prefetched, and not those of the next block.

The tiles of both blocks would not fit in the second-level cache together.
"""
PREFETCH_IN_ROW_BYTES: Final = 1024
"""Prefetch distance for chosen lanes, in bytes. Another row begins beyond this distance."""


class VectorGenerator:
    """Generator of LLVM code that multiplies one token by a weight tile, on the PEs of a block.

    Most attributes are LLVM values of the generated code.

    Attributes:
        outs, xs: Pointers to the first sum and to the first activation.
        acc, act: Numba types of a sum and of an activation.
        K, N: Numbers of inputs and outputs.
        lanes: Number of lanes (PEs) in the block.
        block_bytes: Size of the memory of a block: the distance to the same element of the next block.
        choice: Pointer to the bits of the selected lanes, or None if all lanes take part.
        full_vectors: Number of vectors that are full of lanes.
        chosen_vectors: Scratch memory with the indices of the full vectors to process, or None if
            all are processed.
        vector_count: Number of full vectors to process.
        has_rest: Whether lanes that do not fill a vector must be processed too.
        mask: Mask of these lanes.
        terms: Scratch memory for activations, as float32.
        terms_at_once: Number of terms that are added while the sums are in registers.
        clears: Whether the sums start at 0.
        ahead: Distance from a weight to the weight that is prefetched with it, in bytes.
    """

    def __init__(
        self, builder: Any, sums: tuple[Any, Any], kind: WeightKind, outs: Any, xs: Any, choice: Any, weights: Any,
        numbers: Any,
    ) -> None:  # fmt: skip
        self.builder, self.outs, self.xs = builder, outs, xs
        self.acc, self.act = sums
        self.K, self.N, add, self.lanes, self.block_bytes = numbers
        self.weights, self.terms_per_byte = kind.weights(builder, weights, self.lanes, MAX_TERMS), kind.terms_per_byte
        self.full_vectors = builder.udiv(self.lanes, word(WIDTH))
        self.choice, self.chosen_vectors, self.vector_count = choice, None, self.full_vectors
        self.has_rest = builder.icmp_unsigned("<", builder.mul(self.full_vectors, word(WIDTH)), self.lanes)
        if choice is not None:
            self._list_chosen_vectors()
        self.terms = cgutils.alloca_once(builder, SINGLES, size=word(MAX_TERMS * MAX_VECTORS))
        self.terms_at_once = builder.select(self.weights.inputs_are_adjacent, word(MAX_TERMS), word(TERMS_OF_ROWS))
        self.clears = builder.icmp_unsigned("==", add, word(0))
        self.mask = rest_mask(builder, self.lanes)
        tile_bytes = builder.mul(builder.mul(builder.mul(self.K, self.N), self.lanes), self.weights.term_bytes)
        large = builder.icmp_unsigned(">", tile_bytes, word(LARGE_TILE_BYTES))
        self.ahead = builder.select(large, word(PREFETCH_BYTES), self.block_bytes)
        if choice is not None:
            self.ahead = word(PREFETCH_IN_ROW_BYTES)

    def multiply(self) -> None:
        """Generate the loops that add all products to all sums, a few input features at a time.

        If there are no inputs (K is 0), one iteration without products stores the sums.
        """
        builder = self.builder
        end = builder.select(builder.icmp_signed(">", self.K, word(0)), self.K, word(1))
        with cgutils.for_range_slice(builder, word(0), end, self.terms_at_once, intp=WORD) as (k, _):
            left = builder.sub(self.K, k)
            terms = builder.select(builder.icmp_signed("<", left, self.terms_at_once), left, self.terms_at_once)
            with cgutils.for_range(builder, terms, intp=WORD) as number:
                term = Term(number.index, builder.add(k, number.index))
                self._over_vectors(lambda lanes: self._widen_term(term, lanes))
            starts = builder.and_(self.clears, builder.icmp_unsigned("==", k, word(0)))
            with cgutils.for_range(builder, self.N, intp=WORD) as n:
                self._over_vectors(lambda lanes: self._add_terms(k, terms, n.index, lanes, starts))

    def _list_chosen_vectors(self) -> None:
        """Generate code that counts and lists the full vectors with at least one selected lane.

        A lane is one PE of the block, and a vector contains neighbouring lanes.
        """
        builder = self.builder
        self.chosen_vectors = cgutils.alloca_once(builder, WORD, size=word(MAX_VECTORS))
        count = cgutils.alloca_once_value(builder, word(0))
        with cgutils.for_range(builder, self.full_vectors, intp=WORD) as vector:
            at = builder.load(count)
            builder.store(vector.index, builder.gep(self.chosen_vectors, [at]))
            builder.store(builder.add(at, builder.zext(self._takes_part(vector.index), WORD)), count)
        self.vector_count, self.has_rest = builder.load(count), self._takes_part(self.full_vectors)

    def _takes_part(self, vector: Any) -> Any:
        """Generate code that tests whether any lane (PE) of a vector is selected."""
        return cgutils.is_not_null(self.builder, self.builder.load(self.builder.gep(self.choice, [vector])))

    def _over_vectors(self, body: Any) -> None:
        """Generate the code of ``body`` for all vectors of lanes (PEs of a block).

        Full vectors are processed in a loop, then the remaining lanes under a mask.

        Args:
            body: Function that generates the code for one vector, given its `Lanes`.
        """
        builder = self.builder
        with cgutils.for_range(builder, self.vector_count, intp=WORD) as index:
            vector = index.index
            if self.chosen_vectors is not None:
                vector = builder.load(builder.gep(self.chosen_vectors, [vector]))
            body(Lanes(vector, builder.mul(vector, word(WIDTH))))
        with builder.if_then(self.has_rest):
            body(Lanes(self.full_vectors, builder.mul(self.full_vectors, word(WIDTH)), self.mask))

    def _widen_term(self, term: Term, lanes: Lanes) -> None:
        """Generate code that converts an input's activations to float32 and prepares its weights.

        For quantised weights, the preparation finds out which scales must be read.

        Args:
            term: Input feature, that is, one term of the sums.
            lanes: Vector of lanes (PEs) whose activations are converted.
        """
        builder = self.builder
        place = builder.gep(self.xs, [builder.add(builder.mul(term.k, self.lanes), lanes.first)])
        fetch(builder, place, self.block_bytes)
        activations = widen_ir(builder, self.act, load_lanes(builder, place, lanes.mask))
        builder.store(activations, self._term(term.number, lanes))
        self.weights.prepare(term, lanes)

    def _term(self, number: Any, lanes: Lanes) -> Any:
        """Return a pointer to the activations of an input feature in scratch memory, as float32.

        Args:
            number: Index of the input feature among the features processed at once.
            lanes: Vector of lanes (PEs).
        """
        builder = self.builder
        return builder.gep(self.terms, [builder.add(builder.mul(number, word(MAX_VECTORS)), lanes.vector)])

    def _add_terms(self, k: Any, terms: Any, n: Any, lanes: Lanes, starts: Any) -> None:
        """Generate code that adds several products to the sums of output ``n``.

        Each term is the product of an activation and a weight.

        Args:
            k, terms: First term, and the number of terms.
            n: Index of the output.
            lanes: Vector of lanes (PEs) whose sums are updated.
            starts: Whether the sums start from 0 with these terms.
        """
        builder = self.builder
        place = builder.gep(self.outs, [builder.add(builder.mul(n, self.lanes), lanes.first)])
        fetch(builder, place, self.block_bytes)
        elements = load_lanes(builder, place, lanes.mask)
        old_sums = builder.select(starts, constant(SINGLES, 0.0), widen_ir(builder, self.acc, elements))
        total = cgutils.alloca_once_value(builder, old_sums)
        at_once = self.terms_per_byte
        with cgutils.for_range_slice(builder, word(0), terms, word(at_once), intp=WORD) as (number, _):
            term = Term(number, builder.add(k, number))
            fetch(builder, self.weights.place(term.k, n, lanes), self.ahead)
            if at_once == 1:
                self._add_term(term, n, lanes, total)
            else:
                self._add_term(term._replace(half=word(0), even=term.k), n, lanes, total)
                next_term = Term(builder.add(number, word(1)), builder.add(term.k, word(1)), word(1), term.k)
                with builder.if_then(builder.icmp_signed("<", next_term.number, terms)):
                    self._add_term(next_term, n, lanes, total)
        new = narrow_ir(builder, self.acc, builder.load(total))
        if self.choice is not None:
            bits = builder.load(builder.gep(self.choice, [lanes.vector]))
            new = builder.select(builder.bitcast(bits, ir.VectorType(ir.IntType(1), WIDTH)), new, elements)
        store_lanes(builder, new, place, lanes.mask)

    def _add_term(self, term: Term, n: Any, lanes: Lanes, total: Any) -> None:
        """Generate code that adds one product to the sums of output ``n`` in a vector of lanes.

        Args:
            term: Input feature whose activation is multiplied by a weight.
            n: Index of the output.
            lanes: Vector of lanes (PEs).
            total: Pointer to the sums.
        """
        builder = self.builder
        weights = self.weights.load(term, n, lanes, word(0))
        product = builder.fmul(builder.load(self._term(term.number, lanes)), weights)
        rounded = narrow_ir(builder, self.acc, builder.fadd(builder.load(total), product))
        builder.store(widen_ir(builder, self.acc, rounded), total)
