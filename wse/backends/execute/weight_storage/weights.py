"""Storage of a checkpoint's tensors as tiles in SRAM, a few rows of a tensor at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from wse.backends.execute.host_memory.arena import STORAGE, Arena, number_type
from wse.backends.execute.weight_storage.quantise import Read, with_codes
from wse.backends.execute.weight_storage.stored_patches import PatchJob, stored_patches
from wse.backends.execute.weight_storage.tiles import (
    VALUES_IN_FLIGHT,
    VALUES_PER_READ,
    Patch,
    Source,
    Tensor,
    decoded_values,
    inner_places,
    is_read_whole,
    patch_shard,
    patches,
    row_range,
    split_by_offset,
    strips,
)
from wse.errors import BadModel
from wse.models.spec import ModelSpec
from wse.program.program import FREQUENCIES, ORDINALS, TIMES, WINDOW_FREQUENCIES, Program
from wse.program.tiles import Tile, TilePart
from wse_kernels.library import thread_count


def with_norm_products(tensor: Callable[[str], Source], read: Read) -> Callable[[str], Source]:
    """Extend ``tensor``, a function that returns tensors by name, by products with norm vectors.

    The returned function also returns products of a matrix and a vector. For example, the name
    ``layers.0.q@attention_norm`` stands for the matrix ``layers.0.q`` times the vector
    ``layers.0.attention_norm``.

    Args:
        tensor: Function that returns matrices ``[out, in]`` and vectors ``[in]``.
        read: Function that reads rows of a tensor in the element type of the weights in SRAM.
    """

    def with_products(name: str) -> Source:
        """Return a tensor, or the product of a matrix and a vector as float32 ``[out]``."""
        matrix_name, _, vector_name = name.partition(TIMES)
        if not vector_name:
            return tensor(name)
        vector_name = f"{matrix_name.rpartition('.')[0]}.{vector_name}"
        matrix, vector = tensor(matrix_name), tensor(vector_name)
        outputs, inputs = matrix.shape
        factors = read(vector_name, vector, (0, inputs)).astype(np.float64)
        product = np.empty(outputs, np.float32)
        step = max(1, VALUES_PER_READ // inputs)
        for first in range(0, outputs, step):
            last = min(first + step, outputs)
            product[first:last] = read(matrix_name, matrix, (first, last)).astype(np.float64) @ factors
        return product

    return with_products


LARGEST_HALF: Final = 65504
INFINITE: Final = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}
"""Bits of infinity. All larger magnitudes are NaN."""


def store_weights(
    program: Program,
    spec: ModelSpec,
    tensor: Callable[[str], Source],
    arenas: Mapping[int, Arena],
    *,
    allow_nonfinite: bool = False,
    on_stored: Callable[[int, int, str], None] = lambda count, total, name: None,
) -> None:
    """Store a model's weights in the emulated SRAM of the stages.

    Every tile (the block of a tensor on one PE) is filled. Values are rounded to the element type
    of the tile, to nearest, ties to even. Rectangles of PEs are filled in parallel, on as many
    threads as the caller has set for kernels.

    Args:
        program: The compiled Program.
        spec: Description of the model.
        tensor: Function that returns the tensor ``[out, in]`` with a given canonical name, in any
            floating-point type.
        arenas: Emulated SRAM of each stage to fill, keyed by the index of the stage.
        allow_nonfinite: Whether weights may contain infinity and NaN.
        on_stored: Function that is called at the beginning and after each rectangle of PEs with
            (elements stored, all elements, name of the last tile).

    Raises:
        BadModel: A value is not finite although ``allow_nonfinite`` is False, or it is too large
            for the element type float16.
    """
    ropes = {FREQUENCIES: spec.rope, WINDOW_FREQUENCIES: spec.window_rope}
    constants = {name: np.array(rope.frequencies, np.float32) for name, rope in ropes.items() if rope is not None}
    constants[ORDINALS] = np.arange(1, 1 + max(spec.head_count, spec.head_size), dtype=np.float32)
    read = _Reader("float32", allow_nonfinite=allow_nonfinite).read
    read_rounded = _Reader(program.element_type("wgt"), allow_nonfinite=allow_nonfinite).read
    tensor = with_norm_products(with_codes(program, spec, tensor, read, allow_nonfinite=allow_nonfinite), read_rounded)
    tiles = [tile for tile in program.tiles if tile.stage in arenas]
    total = sum(tile.outer * tile.inner * arenas[tile.stage].rows * arenas[tile.stage].cols for tile in tiles)

    def jobs() -> Iterator[PatchJob]:
        """Yield the jobs that store all tiles."""
        for tile in tiles:
            reader = _Reader(program.element_type(tile.view), allow_nonfinite=allow_nonfinite)
            parts = [segment for part in tile.parts for segment in split_by_offset(part)]
            names = dict.fromkeys(part.tensor for part in parts)
            sources = {name: constants[name] if name in constants else tensor(name) for name in names}
            yield from _patch_jobs(tile, parts, sources, reader, arenas[tile.stage])

    stored_elements = 0
    on_stored(stored_elements, total, "")
    for job in stored_patches(jobs(), thread_count(), VALUES_IN_FLIGHT):
        stored_elements += job.elements
        on_stored(stored_elements, total, job.tile)


def _patch_jobs(
    tile: Tile, parts: list[TilePart], sources: Mapping[str, Source], reader: _Reader, arena: Arena
) -> Iterator[PatchJob]:
    """Yield jobs that each store a tile in the SRAM of a rectangle of PEs (a patch).

    Args:
        tile: The tile (block of weights on a PE).
        parts: Parts of the tile, each with at most one index offset.
        sources: Tensors; the key is the name of the tensor.
        reader: Reader that checks and rounds the values.
        arena: SRAM of the stage.
    """
    places = inner_places(parts, tile.blocks)
    part_sources = [sources[part.tensor] for part in parts]
    for patch in patches(parts, part_sources, arena.rows, arena.cols):
        reads = [
            _Reading(part, source, *row_range(part, patch)) for part, source in zip(parts, part_sources, strict=True)
        ]

        def store(patch: Patch = patch, reads: list[_Reading] = reads) -> None:
            """Read the tensor rows of all parts of the tile, and store the values on the PEs."""
            for read, part_places in zip(reads, places, strict=True):
                if read.first < read.last:
                    values = reader.stored_rows(read.part.tensor, read.source, (read.first, read.last))
                    for strip in strips(read.part, patch):
                        shard = patch_shard(read.part, read.first, strip, tile, part_places)
                        arena.store(reader.element_type, tile.address, values, shard)

        elements = tile.outer * tile.inner * (patch.last_row - patch.first_row) * (patch.last_col - patch.first_col)
        yield PatchJob(max(read.values for read in reads), store, tile.name, elements)


class _Reading(NamedTuple):
    """Tensor rows that a rectangle of PEs needs for one part of its tile.

    Attributes:
        part: The part of the tile.
        source: Tensor from which the rows are read.
        first, last: First row, and one past the last row.
    """

    part: TilePart
    source: Source
    first: int
    last: int

    @property
    def values(self) -> int:
        """Maximum number of values that are in memory while the rows are read.

        Values that must be decoded in addition to the rows are included. If the rows are read in
        several steps, the values of one step are in memory together with the result.
        """
        values = (self.last - self.first) * math.prod(self.source.shape[1:])
        if values > VALUES_PER_READ and not is_read_whole(self.source):
            values += VALUES_PER_READ
        return max(values, decoded_values(self.source, self.first, self.last))


class _Reader:
    """Tensor reader that checks every value and rounds it to one element type."""

    def __init__(self, element_type: str, *, allow_nonfinite: bool) -> None:
        self.element_type = element_type
        self._type = number_type(element_type)
        self._allow_nonfinite = allow_nonfinite

    def read(self, name: str, source: Source, rows: tuple[int, int]) -> Tensor:
        """Return rows of a tensor, rounded to the element type.

        Args:
            name: Name of the tensor, for error messages.
            source: Tensor whose rows are read.
            rows: First row and one past the last row.
        """
        return self._round(self._checked_rows(name, source, rows))

    def stored_rows(self, name: str, source: Source, rows: tuple[int, int]) -> Tensor:
        """Return rows of a tensor, rounded only if the arena cannot round them while storing.

        An arena (the emulated SRAM of a region) can round values of most types when it stores them.

        Args:
            name: Name of the tensor, for error messages.
            source: Tensor whose rows are read.
            rows: First row and one past the last row.
        """
        values = self._checked_rows(name, source, rows)
        return values if values.dtype.name in STORAGE and self.element_type != "uint8" else self._round(values)

    def _checked_rows(self, name: str, source: Source, rows: tuple[int, int]) -> Tensor:
        """Return rows in the type of the source, after checking every value.

        The rows are read in several steps to save memory, unless the source decodes everything at
        once.
        """
        first, last = rows
        step = max(1, VALUES_PER_READ // max(1, math.prod(source.shape[1:])))
        if last - first <= step or is_read_whole(source):
            return self._require_finite(name, source, source[first:last])
        result = np.empty((last - first, *source.shape[1:]), source[first:first].dtype)
        for begin in range(first, last, step):
            end = min(begin + step, last)
            result[begin - first : end - first] = self._require_finite(name, source, source[begin:end])
        return result

    def _round(self, values: Tensor) -> Tensor:
        """Return values rounded to the element type of the reader."""
        with np.errstate(over="ignore", invalid="ignore"):  # values that overflow here are allowed or exceed bfloat16
            return values.astype(self._type, copy=False)

    def _require_finite(self, name: str, source: Source, values: Tensor) -> Tensor:
        """Check that floating-point values are finite and not too large, and return the values.

        Raises:
            BadModel: A value is not finite, or is too large for the element type.
        """
        kind = values.dtype.name
        if kind not in INFINITE or not values.size:
            return values
        bits = _largest_magnitude(values)
        if bits >= INFINITE[kind]:
            if self._allow_nonfinite:
                return values
            count, total = _nonfinite(source), math.prod(source.shape)
            raise BadModel(
                f"{name}: {count:,} of {total:,} values are not finite numbers; "
                "fetch or convert the weights again, or use --allow-nonfinite"
            )
        largest_value = float(np.array(bits).view(values.dtype))
        if self.element_type == "float16" and largest_value > LARGEST_HALF:
            limit = f"more than float16's {LARGEST_HALF:,}"
            raise BadModel(f"{name}: contains {largest_value:.3g}, {limit}; use --dtype bfloat16 or float32")
        return values


def _largest_magnitude(values: Tensor) -> Any:
    """Return the bits, as an integer, of the value with the largest magnitude in an array.

    Comparing these bits with a limit also detects NaN, which counts as larger than infinity. For
    float32, only the minimum and the maximum are examined, which are NaN if any value is NaN.
    """
    if values.dtype != np.float32:
        return _magnitudes(values).max()
    return _magnitudes(np.maximum(values.max(keepdims=True), -values.min(keepdims=True))).max()


def _magnitudes(values: Tensor) -> npt.NDArray[np.unsignedinteger]:
    """Return the bits of floating-point numbers without the sign.

    As integers, these bits have the same order as the magnitudes of the numbers.
    """
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    return np.asarray(values.view(unsigned) & unsigned.type((1 << 8 * values.dtype.itemsize - 1) - 1))


def _nonfinite(source: Source) -> int:
    """Return the number of values of a tensor that are infinite or NaN."""
    step = max(1, VALUES_PER_READ // max(1, math.prod(source.shape[1:])))
    row_ranges = (source[begin : begin + step] for begin in range(0, source.shape[0], step))
    return sum(int((_magnitudes(values) >= INFINITE[values.dtype.name]).sum()) for values in row_ranges)
