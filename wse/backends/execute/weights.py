"""A checkpoint's tensors cut into tiles and stored in the PEs' SRAM, some rows of a tensor at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from wse.backends.execute.arena import STORAGE, Arena, number_type
from wse.backends.execute.norm_products import with_norm_products
from wse.backends.execute.quantise import with_codes
from wse.backends.execute.stored_patches import PatchJob, stored_patches
from wse.backends.execute.tiles import (
    STRETCH_VALUES,
    VALUES_IN_FLIGHT,
    Patch,
    Source,
    Tensor,
    decoded_values,
    inner_places,
    is_read_whole,
    patches,
    row_range,
    share,
    stretches,
    strips,
)
from wse.errors import BadModel
from wse.models.spec import ModelSpec
from wse.program.program import ORDINALS, Program
from wse.program.tiles import Tile, TilePart
from wse_kernels.library import thread_count

LARGEST_HALF: Final = 65504
INFINITE: Final = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}
"""The bits of infinity; those of every larger magnitude are no number."""


def store_weights(
    program: Program,
    spec: ModelSpec,
    tensor: Callable[[str], Source],
    arenas: Mapping[int, Arena],
    *,
    allow_nonfinite: bool = False,
    on_stored: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> None:
    """Fill every tile of every stage that has an arena.

    ``tensor`` gives a canonical tensor ``[out, in]`` in any floating-point type.

    ``on_stored`` is called with (elements stored, all, the tile of the last) at the beginning and after each patch. As
    many threads as the caller has set for kernels store patches, each on one core.

    Values are converted to the element type of the tile's view, to the nearest, ties to even.

    Raises BadModel when a value is not finite, unless that is allowed, or is beyond float16 and that is the element
    type.
    """
    constants = {} if spec.rope is None else {"rotary_frequencies": np.array(spec.rope.frequencies, np.float32)}
    constants[ORDINALS] = np.arange(1, 1 + max(spec.head_count, spec.head_size), dtype=np.float32)
    read = _Reader("float32", allow_nonfinite=allow_nonfinite).read
    held = _Reader(program.element_type("wgt"), allow_nonfinite=allow_nonfinite).read
    tensor = with_norm_products(with_codes(program, spec, tensor, read, allow_nonfinite=allow_nonfinite), held)
    tiles = [tile for tile in program.tiles if tile.stage in arenas]
    total = sum(tile.outer * tile.inner * arenas[tile.stage].rows * arenas[tile.stage].cols for tile in tiles)

    def jobs() -> Iterator[PatchJob]:
        for tile in tiles:
            reader = _Reader(program.element_type(tile.view), allow_nonfinite=allow_nonfinite)
            parts = [stretch for part in tile.parts for stretch in stretches(part)]
            names = dict.fromkeys(part.tensor for part in parts)
            sources = {name: constants[name] if name in constants else tensor(name) for name in names}
            yield from _patch_jobs(tile, parts, sources, reader, arenas[tile.stage])

    stored = 0
    on_stored(stored, total, "")
    for job in stored_patches(jobs(), thread_count(), VALUES_IN_FLIGHT):
        stored += job.elements
        on_stored(stored, total, job.tile)


def _patch_jobs(
    tile: Tile, parts: list[TilePart], sources: Mapping[str, Source], reader: _Reader, arena: Arena
) -> Iterator[PatchJob]:
    """Yield the jobs that store a tile of ``parts`` in an arena."""
    places = inner_places(parts, tile.blocks)
    of_parts = [sources[part.tensor] for part in parts]
    for patch in patches(parts, of_parts, arena.rows, arena.cols):
        reads = [_Reading(part, source, *row_range(part, patch)) for part, source in zip(parts, of_parts, strict=True)]

        def store(patch: Patch = patch, reads: list[_Reading] = reads) -> None:
            for read, part_places in zip(reads, places, strict=True):
                if read.first < read.last:
                    values = reader.stored_rows(read.part.tensor, read.source, (read.first, read.last))
                    for strip in strips(read.part, patch):
                        taken = share(read.part, read.first, strip, tile, part_places)
                        arena.store(reader.element_type, tile.address, values, taken)

        elements = tile.outer * tile.inner * (patch.last_row - patch.first_row) * (patch.last_col - patch.first_col)
        yield PatchJob(max(read.values for read in reads), store, tile.name, elements)


class _Reading(NamedTuple):
    """The rows of a tensor that a patch reads for a part of a tile."""

    part: TilePart
    source: Source
    first: int
    last: int

    @property
    def values(self) -> int:
        """The number of values in memory while these rows are read, including everything that is decoded for them.

        Where they are more than a stretch, these and the stretch that comes to them.
        """
        values = (self.last - self.first) * math.prod(self.source.shape[1:])
        if values > STRETCH_VALUES and not is_read_whole(self.source):
            values += STRETCH_VALUES
        return max(values, decoded_values(self.source, self.first, self.last))


class _Reader:
    """A reader of parts of tensors as numbers of one element type that checks every value."""

    def __init__(self, element_type: str, *, allow_nonfinite: bool) -> None:
        self.element_type = element_type
        self._type = number_type(element_type)
        self._allow_nonfinite = allow_nonfinite

    def read(self, name: str, source: Source, rows: tuple[int, int]) -> Tensor:
        """Return the rows from the first to before the last, rounded to the element type."""
        return self._round(self._stretches(name, source, rows))

    def stored_rows(self, name: str, source: Source, rows: tuple[int, int]) -> Tensor:
        """Return the rows from the first to before the last, in the type of the source where PEs support it."""
        values = self._stretches(name, source, rows)
        return values if values.dtype.name in STORAGE and self.element_type != "uint8" else self._round(values)

    def _stretches(self, name: str, source: Source, rows: tuple[int, int]) -> Tensor:
        """Yield rows as the source stores them, checked as they are read, few at a time where that decodes no more."""
        first, last = rows
        step = max(1, STRETCH_VALUES // max(1, math.prod(source.shape[1:])))
        if last - first <= step or is_read_whole(source):
            return self._require_finite(name, source, source[first:last])
        result = np.empty((last - first, *source.shape[1:]), source[first:first].dtype)
        for begin in range(first, last, step):
            end = min(begin + step, last)
            result[begin - first : end - first] = self._require_finite(name, source, source[begin:end])
        return result

    def _round(self, values: Tensor) -> Tensor:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is allowed, or is beyond bfloat16
            return values.astype(self._type, copy=False)

    def _require_finite(self, name: str, source: Source, values: Tensor) -> Tensor:
        if values.dtype.name in INFINITE and values.size:
            self._check(name, source, values)
        return values

    def _check(self, name: str, source: Source, values: Tensor) -> None:
        kind = values.dtype.name
        bits = _largest_magnitude(values)
        if bits >= INFINITE[kind]:
            if self._allow_nonfinite:
                return
            count, total = _nonfinite(source), math.prod(source.shape)
            message = (
                f"{name}: {count:,} of {total:,} values are not finite numbers; "
                "fetch or convert the weights again, or use --allow-nonfinite"
            )
            raise BadModel(message)
        largest = float(np.array(bits).view(values.dtype))
        if self.element_type == "float16" and largest > LARGEST_HALF:
            message = (
                f"{name}: holds {largest:.3g}, more than float16's {LARGEST_HALF:,}; use --dtype bfloat16 or float32"
            )
            raise BadModel(message)


def _largest_magnitude(values: Tensor) -> Any:
    """Return the largest of `_magnitudes`; for float32 from minimum and maximum, which are NaN where a value is."""
    if values.dtype != np.float32:
        return _magnitudes(values).max()
    return _magnitudes(np.maximum(values.max(keepdims=True), -values.min(keepdims=True))).max()


def _magnitudes(values: Tensor) -> npt.NDArray[np.unsignedinteger]:
    """Return the bits of floating-point numbers without sign, which have the order of the magnitudes."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    return np.asarray(values.view(unsigned) & unsigned.type((1 << 8 * values.dtype.itemsize - 1) - 1))


def _nonfinite(source: Source) -> int:
    """Return the number of values that are infinite or NaN."""
    step = max(1, STRETCH_VALUES // max(1, math.prod(source.shape[1:])))
    stretches = (source[begin : begin + step] for begin in range(0, source.shape[0], step))
    return sum(int((_magnitudes(values) >= INFINITE[values.dtype.name]).sum()) for values in stretches)
