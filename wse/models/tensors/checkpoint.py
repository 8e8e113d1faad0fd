"""Checkpoint: the arrays of a model under their canonical names (see `model_tensors`).

All tensors are checked when a checkpoint is opened.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wse.errors import BadModel, WseBug
from wse.models.configs.config import family_of
from wse.models.family import CanonicalTensor, Family, FileSlice
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_entry import FLOATS, Array, MappedFile, TensorEntry

MAX_NAMED: Final = 10
COMPARED_ROWS: Final = 1024
VALUES_IN_MEMORY: Final = 1 << 22
"""Number of values read before the pages of all files are released from memory."""
NO_NUMBERS: Final = frozenset(
    {"BOOL", "F8_E4M3", "F64", *(f"{sign}{size}" for sign in "IU" for size in (8, 16, 32, 64))}
)
"""Element types that are not accepted as weights, at least not without scales."""
OTHER_CONFIG: Final = "use the config.json that belongs to these weights"


class Checkpoint:
    """The tensors that a model needs from a checkpoint, under their wse names."""

    def __init__(self, spec: ModelSpec, entries: Mapping[str, TensorEntry]) -> None:
        """Check the tensors of a checkpoint against the model.

        The element type of plain tensors may differ from ``spec.dtype``: norms and routers, for
        example, are often float32 in a bfloat16 model. `tensor` returns them in their own type, and
        the caller converts them when it stores them.

        Args:
            spec: Specification of the model.
            entries: Tensors of the files, keyed by the name in the file. Tensors that the model
                does not need are an error, unless they are known to have no effect.

        Raises:
            BadModel: Tensors are missing or unexpected, have the wrong shape, or are not
                floating-point numbers. The message lists the first ten and the total number.
        """
        self.spec = spec
        family = family_of(spec.family)
        self._tensors = {tensor.name: tensor for tensor in family.tensors(spec, entries.keys())}
        self._used: dict[str, TensorEntry] = {}
        fault_of: dict[str, _Fault] = {}  # by name in the file
        for tensor in self._tensors.values():
            for file_slice in tensor.slices:
                if file_slice.file_name in entries:
                    self._used[file_slice.file_name] = entries[file_slice.file_name]
                fault = _fault(tensor, file_slice, entries)
                if fault is not None:
                    fault_of.setdefault(file_slice.file_name, fault)
        faults = [*fault_of.values(), *self._unexpected_tensors(entries, family, compares_copy=not fault_of)]
        if faults:
            first_path = next((entry.path for entry in entries.values()), Path(spec.name))
            raise _refusal(faults, first_path)
        self._pages = _Pages(dict.fromkeys(entry.file for entry in entries.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model's tensors: first the tensors outside layers, then layer by layer."""
        return tuple(self._tensors)

    @property
    def size_bytes(self) -> int:
        """Size in bytes of the needed tensors in the files.

        An embedding table that is also the output head is counted once.
        """
        return sum(entry.stored_bytes for entry in self._used.values())

    def rows(self, name: str) -> TensorRows:
        """Return a reader for ranges of a tensor's rows. It keeps little of the file in memory."""
        if name not in self._tensors:
            raise WseBug(f"no tensor {name!r} in {self.spec.name}")
        return TensorRows(self._tensors[name], self._used, self._pages)

    def tensor(self, name: str) -> NDArray[Any]:
        """Return a tensor as a read-only, row-major array.

        Plain tensors keep the element type of the file. Packed or quantised tensors are decoded to
        float32. The array is a view of the file if the file stores the tensor in wse's layout,
        aligned to its element size. Otherwise it is a copy.
        """
        array = self.rows(name)[:]
        if not (array.flags.aligned and array.flags.c_contiguous):
            array = np.array(array, order="C")
        array.flags.writeable = False
        return array

    def _unexpected_tensors(
        self, entries: Mapping[str, TensorEntry], family: Family, *, compares_copy: bool
    ) -> Iterator[_Fault]:
        """Yield a fault for each tensor that the model does not have and that may affect results.

        If the output head is tied to the embedding, some files store this table a second time as
        the head. This copy is accepted if it has the same values as the embedding.

        Args:
            entries: Tensors of the files, keyed by name.
            family: Family of the model.
            compares_copy: True to compare the values of the copy with the embedding. False to
                accept the copy without reading it. This is used if another tensor has a fault,
                because the embedding may then be missing.
        """
        harmless = family.harmless_tensors(self.spec)
        for name in sorted(entries.keys() - self._used.keys()):
            entry = entries[name]
            if harmless.fullmatch(name):
                continue
            if not (self.spec.tied_embedding and name == family.tied_copy):
                problem = f"is not part of a {self.spec.family} model of {self.spec.layer_count} layers"
                yield _Fault(entry.path, name, problem, OTHER_CONFIG)
            elif compares_copy and not _equal(entry, self._used[self._tensors["embedding"].slices[0].file_name]):
                problem = "differs from the embedding that the config ties it to"
                yield _Fault(entry.path, name, problem, "set tie_word_embeddings to false")


@dataclass(frozen=True, slots=True)
class _Fault:
    """A checkpoint fault: a tensor that is missing or does not match the model.

    Attributes:
        path: File with the tensor; None if no file has it.
        tensor: Name of the tensor in the file.
        problem: What is wrong, as the predicate of a sentence.
        remedy: What the user can do.
    """

    path: Path | None
    tensor: str
    problem: str
    remedy: str


def _fault(required: CanonicalTensor, file_slice: FileSlice, entries: Mapping[str, TensorEntry]) -> _Fault | None:
    """Check the checkpoint tensor that a slice refers to.

    Args:
        required: Tensor of the model that needs the slice.
        file_slice: Slice to check.
        entries: Tensors of the files, keyed by name.

    Returns:
        What is wrong with the checkpoint tensor, or None if it matches the model.
    """
    entry = entries.get(file_slice.file_name)
    if entry is None:
        remedy = "fetch the weights again, or use the config.json that belongs to them"
        if required.name == "head":
            remedy = "set tie_word_embeddings to true if the head is the embedding, else fetch the weights again"
        return _Fault(None, file_slice.file_name, "is missing", remedy)
    if entry.shape != file_slice.file_shape:
        problem = f"has shape {list(entry.shape)}, the config requires {list(file_slice.file_shape)}"
        return _Fault(entry.path, entry.name, problem, OTHER_CONFIG)
    if entry.kind in NO_NUMBERS:
        problem = f"is {entry.kind}, which is not a type of weights" + (
            " without scales" if entry.kind == "F8_E4M3" else ""
        )
        remedy = f"supported: {', '.join(FLOATS)}; or fp8 and mxfp4 with scales, named by quantization_config"
        return _Fault(entry.path, entry.name, problem, remedy)
    return None


def _refusal(faults: list[_Fault], a_path: Path) -> BadModel:
    """Build one error that reports all faults of a checkpoint.

    Args:
        faults: The faults, at least one.
        a_path: Path of any file of the checkpoint.
    """
    folder = a_path if a_path.suffix == ".gguf" else a_path.parent
    if len(faults) == 1:
        fault = faults[0]
        return BadModel(f"{fault.path or folder}: tensor {fault.tensor!r} {fault.problem}; {fault.remedy}")
    fault_texts = "; ".join(f"{fault.tensor!r} {fault.problem}" for fault in faults[:MAX_NAMED])
    count_text = f"; and {len(faults) - MAX_NAMED} more" if len(faults) > MAX_NAMED else ""
    remedies = {fault.remedy for fault in faults}
    remedy = remedies.pop() if len(remedies) == 1 else "fetch the weights again, or " + OTHER_CONFIG
    return BadModel(f"{folder}: {len(faults)} tensors disagree with the config: {fault_texts}{count_text}; {remedy}")


def _equal(first: TensorEntry, second: TensorEntry) -> bool:
    """Return whether two tensors have the same shape, storage format and values."""
    if first.shape != second.shape or first.kind != second.kind:
        return False
    row_ranges = (slice(at, at + COMPARED_ROWS) for at in range(0, first.shape[0], COMPARED_ROWS))
    return all(np.array_equal(first.rows(rows), second.rows(rows)) for rows in row_ranges)


class _Pages:
    """Memory-mapped pages of a checkpoint's files, released periodically to save memory.

    The pages are released whenever about `VALUES_IN_MEMORY` more values have been read. A thread
    that is reading at that moment must reload its few pages from the file.
    """

    def __init__(self, files: Collection[MappedFile]) -> None:
        self._files, self._lock, self._values = tuple(files), Lock(), 0

    def read(self, values: int) -> None:
        """Count values that are read, and release all pages when the count exceeds the limit."""
        with self._lock:
            self._values += values
            if self._values <= VALUES_IN_MEMORY:
                return
            self._values = values
        for file in self._files:
            file.release_pages()


class TensorRows:
    """A tensor in a checkpoint whose rows are read on demand: ``tensor[first:last]`` is an array.

    Plain tensors keep the element type of the file. Packed or quantised tensors are decoded to
    float32. Only the requested rows are read and decoded, if possible, and nothing is cached.
    Several threads may read concurrently.

    Attributes:
        shape: Shape of the whole tensor.
    """

    def __init__(self, tensor: CanonicalTensor, entries: Mapping[str, TensorEntry], pages: _Pages) -> None:
        self._slices = [(file_slice, entries[file_slice.file_name]) for file_slice in tensor.slices]
        shapes = [file_slice.shape for file_slice, _ in self._slices]
        self._counts = [shape[0] for shape in shapes]
        self._pages = pages
        self.shape = (sum(self._counts), *shapes[0][1:])

    @property
    def codes_and_scales(self) -> tuple[TensorRows, TensorRows] | None:
        """Codes ``[out, in]`` of a packed matrix, one byte each, and its scales ``[out, groups]``.

        None if any slice of the tensor is not packed.
        """
        codes = [(file_slice, entry.codes) for file_slice, entry in self._slices if entry.codes is not None]
        scales = [(file_slice, entry.scales) for file_slice, entry in self._slices if entry.scales is not None]
        if len(codes) < len(self._slices):
            return None
        return self._rows_of_others(codes), self._rows_of_others(scales)

    @property
    def is_read_whole(self) -> bool:
        """True if some rows can only be read by decoding a whole tensor of the file.

        This is the case for a packed tensor that is transposed, for example, but never for plain
        tensors.
        """
        return not all(file_slice.is_sliced_by_rows or entry.kind in FLOATS for file_slice, entry in self._slices)

    def decoded_values(self, first: int, last: int) -> int:
        """Return how many decoded values are in memory while a range of rows is read.

        Only the requested rows of plain tensors count. For packed tensors, all values that must be
        decoded to read these rows count.

        Args:
            first: First row.
            last: Row after the last one.
        """
        width = math.prod(self.shape[1:])
        return sum(
            (end - begin) * width if entry.kind in FLOATS else file_slice.read_values(end - begin)
            for file_slice, entry, begin, end in self._overlaps(first, last)
        )

    def _overlaps(self, first: int, last: int) -> Iterator[tuple[FileSlice, TensorEntry, int, int]]:
        """Find the slices of the tensor that contain the rows in a range.

        Args:
            first: First row of the range.
            last: Row after the last one.

        Yields:
            (slice, file tensor, begin, end): rows begin to end of the slice are in the range.
        """
        first_row = 0
        for (file_slice, entry), count in zip(self._slices, self._counts, strict=True):
            begin, end = max(first - first_row, 0), min(last - first_row, count)
            if begin < end:
                yield file_slice, entry, begin, end
            first_row += count

    def _rows_of_others(self, parts: Sequence[tuple[FileSlice, TensorEntry]]) -> TensorRows:
        """Return a reader that applies the slices of this tensor to other tensors.

        It reads the codes, or the scales, of a packed tensor row by row.

        Args:
            parts: Each slice of this tensor, with the other tensor from which it is read.
        """
        slices = tuple(
            replace(file_slice, file_name=str(i), file_shape=part.shape) for i, (file_slice, part) in enumerate(parts)
        )
        entries = {str(i): part for i, (_, part) in enumerate(parts)}
        return TensorRows(CanonicalTensor(name="", slices=slices), entries, self._pages)

    def __getitem__(self, rows: slice) -> Array:
        """Return the rows from ``rows.start`` up to, but excluding, ``rows.stop``."""
        first, last, _ = rows.indices(self.shape[0])
        overlaps = list(self._overlaps(first, last))
        self._pages.read(sum(file_slice.read_values(end - begin) for file_slice, _, begin, end in overlaps))
        slices = [file_slice.read(entry, slice(begin, end)) for file_slice, entry, begin, end in overlaps]
        if not slices:
            return np.zeros((0, *self.shape[1:]), np.float32)
        return slices[0] if len(slices) == 1 else np.concatenate(slices)
