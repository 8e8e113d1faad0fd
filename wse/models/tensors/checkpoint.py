"""Checkpoint: the arrays of a model under our own names (`model_tensors`), all checked when it is opened."""

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
from wse.models.family import Family, Piece, WantedTensor
from wse.models.spec import ModelSpec
from wse.models.tensors.tensor_entry import FLOATS, Array, MappedFile, TensorEntry

MOST_NAMED: Final = 10
COMPARED_ROWS: Final = 1024
VALUES_IN_MEMORY: Final = 1 << 22
"""Values whose pages of files may be in memory, beside those of one stretch."""
NO_NUMBERS: Final = frozenset(
    {"BOOL", "F8_E4M3", "F64", *(f"{sign}{size}" for sign in "IU" for size in (8, 16, 32, 64))}
)
"""Kinds that are no weights by themselves; the rest is F32, F16, BF16 or decoded to float32."""
OTHER_CONFIG: Final = "use the config.json that belongs to these weights"


class Checkpoint:
    """The tensors of a checkpoint that ``spec`` requires, and no others."""

    def __init__(self, spec: ModelSpec, entries: Mapping[str, TensorEntry]) -> None:
        """Read the file's ``entries``. Those that the spec does not require must be harmless.

        A plain tensor may be of another floating-point type than ``spec.dtype``, as norms and routers often are
        float32 beside bfloat16: its own type is what `tensor` gives, and whoever stores it converts it.

        Raises:
            BadModel: tensors are missing, unexpected, or have the wrong shape or no floating-point type; names the
                first ten of them and how many there are.
        """
        self.spec = spec
        family = family_of(spec.family)
        self._wanted = {tensor.name: tensor for tensor in family.tensors(spec, entries.keys())}
        self._used: dict[str, TensorEntry] = {}
        fault_of: dict[str, _Fault] = {}  # by name in the file
        for tensor in self._wanted.values():
            for piece in tensor.pieces:
                if piece.file_name in entries:
                    self._used[piece.file_name] = entries[piece.file_name]
                fault = _fault(tensor, piece, entries)
                if fault is not None:
                    fault_of.setdefault(piece.file_name, fault)
        faults = [*fault_of.values(), *self._unasked_tensors(entries, family, sound=not fault_of)]
        if faults:
            where = next((entry.path for entry in entries.values()), Path(spec.name))
            raise _refusal(faults, where)
        self._pages = _Pages(dict.fromkeys(entry.file for entry in entries.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the canonical names of all tensors: tables first, then layer by layer."""
        return tuple(self._wanted)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all tensors in the file, a tied table counted once."""
        return sum(entry.stored_bytes for entry in self._used.values())

    def rows(self, name: str) -> TensorRows:
        """Return a tensor that is read by ranges of rows, which keeps little of the file in memory."""
        if name not in self._wanted:
            msg = f"no tensor {name!r} in {self.spec.name}"
            raise WseBug(msg)
        return TensorRows(self._wanted[name], self._used, self._pages)

    def tensor(self, name: str) -> NDArray[Any]:
        """Return a read-only array, row-major, in float32 or in the file's element type for plain numbers.

        A view of the file where the file has the tensor as we do and aligns it to its element size, else a copy.
        """
        array = self.rows(name)[:]
        if not (array.flags.aligned and array.flags.c_contiguous):
            array = np.array(array, order="C")
        array.flags.writeable = False
        return array

    def _unasked_tensors(self, entries: Mapping[str, TensorEntry], family: Family, *, sound: bool) -> Iterator[_Fault]:
        """Return the faults of additional tensors; a copy is compared only where all others are ``sound``."""
        harmless = family.harmless_tensors(self.spec)
        for name in sorted(entries.keys() - self._used.keys()):
            entry = entries[name]
            if harmless.fullmatch(name):
                continue
            if not (self.spec.tied_embedding and name == family.tied_copy):
                what = f"is not part of a {self.spec.family} model of {self.spec.layer_count} layers"
                yield _Fault(entry.path, name, what, OTHER_CONFIG)
            elif sound and not _equal(entry, self._used[self._wanted["embedding"].pieces[0].file_name]):
                what = "differs from the embedding that the config ties it to"
                yield _Fault(entry.path, name, what, "set tie_word_embeddings to false")


@dataclass(frozen=True, slots=True)
class _Fault:
    """A tensor that does not match the config. ``path`` is None where no file has it."""

    path: Path | None
    tensor: str
    what: str
    remedy: str


def _fault(wanted: WantedTensor, piece: Piece, entries: Mapping[str, TensorEntry]) -> _Fault | None:
    entry = entries.get(piece.file_name)
    if entry is None:
        remedy = "fetch the weights again, or use the config.json that belongs to them"
        if wanted.name == "head":
            remedy = "set tie_word_embeddings to true if the head is the embedding, else fetch the weights again"
        return _Fault(None, piece.file_name, "is missing", remedy)
    if entry.shape != piece.file_shape:
        what = f"has shape {list(entry.shape)}, the config asks for {list(piece.file_shape)}"
        return _Fault(entry.path, entry.name, what, OTHER_CONFIG)
    if entry.kind in NO_NUMBERS:
        what = f"is {entry.kind}, which is no type of weights" + (" without scales" if entry.kind == "F8_E4M3" else "")
        remedy = f"supported: {', '.join(FLOATS)}; or fp8 and mxfp4 with scales, named by quantization_config"
        return _Fault(entry.path, entry.name, what, remedy)
    return None


def _refusal(faults: list[_Fault], somewhere: Path) -> BadModel:
    """Return one error for all faults of a checkpoint. ``somewhere`` is one of its files."""
    folder = somewhere if somewhere.suffix == ".gguf" else somewhere.parent
    if len(faults) == 1:
        fault = faults[0]
        return BadModel(f"{fault.path or folder}: tensor {fault.tensor!r} {fault.what}; {fault.remedy}")
    fault_texts = "; ".join(f"{fault.tensor!r} {fault.what}" for fault in faults[:MOST_NAMED])
    count_text = f"; and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
    remedies = {fault.remedy for fault in faults}
    remedy = remedies.pop() if len(remedies) == 1 else "fetch the weights again, or " + OTHER_CONFIG
    return BadModel(f"{folder}: {len(faults)} tensors disagree with the config: {fault_texts}{count_text}; {remedy}")


def _equal(first: TensorEntry, second: TensorEntry) -> bool:
    if first.shape != second.shape or first.kind != second.kind:
        return False
    stretches = (slice(at, at + COMPARED_ROWS) for at in range(0, first.shape[0], COMPARED_ROWS))
    return all(np.array_equal(first.rows(rows), second.rows(rows)) for rows in stretches)


class _Pages:
    """The pages of mapped files, released after about every `VALUES_IN_MEMORY` values that are read.

    Threads that read meanwhile get those they still want from the file once more: a few, as each holds few values.
    """

    def __init__(self, files: Collection[MappedFile]) -> None:
        self._files, self._lock, self._values = tuple(files), Lock(), 0

    def read(self, values: int) -> None:
        """Count values that are about to be read."""
        with self._lock:
            self._values += values
            if self._values <= VALUES_IN_MEMORY:
                return
            self._values = values
        for file in self._files:
            file.release_pages()


class TensorRows:
    """A tensor whose ``rows[first:last]`` is an array in float32, or in the file's type for plain numbers.

    Only what belongs to these rows is read and decoded, and nothing is kept. Several threads may read at a time.
    """

    def __init__(self, wanted: WantedTensor, entries: Mapping[str, TensorEntry], pages: _Pages) -> None:
        self._pieces = [(piece, entries[piece.file_name]) for piece in wanted.pieces]
        shapes = [piece.shape for piece, _ in self._pieces]
        self._counts = [shape[0] for shape in shapes]
        self._pages = pages
        self.shape = (sum(self._counts), *shapes[0][1:])

    @property
    def codes_and_scales(self) -> tuple[TensorRows, TensorRows] | None:
        """Return the codes ``[out, in]``, one byte each, and the scales ``[out, groups]``, if the files contain all
        of them.
        """
        codes = [(piece, entry.codes) for piece, entry in self._pieces if entry.codes is not None]
        scales = [(piece, entry.scales) for piece, entry in self._pieces if entry.scales is not None]
        if len(codes) < len(self._pieces):
            return None
        return self._rows_of_others(codes), self._rows_of_others(scales)

    @property
    def is_read_whole(self) -> bool:
        """Return whether any range of rows needs the whole tensor decoded, as for transposed tensors."""
        return not all(piece.is_cut_by_rows or entry.kind in FLOATS for piece, entry in self._pieces)

    def decoded_values(self, first: int, last: int) -> int:
        """Return the number of values in memory while some rows are read.

        Files of plain numbers decode none: of them it is those of the rows.
        """
        width = math.prod(self.shape[1:])
        return sum(
            (end - begin) * width if entry.kind in FLOATS else piece.read_values(end - begin)
            for piece, entry, begin, end in self._overlaps(first, last)
        )

    def _overlaps(self, first: int, last: int) -> Iterator[tuple[Piece, TensorEntry, int, int]]:
        """Yield the pieces with rows in a range, each with its own row numbers."""
        at = 0
        for (piece, entry), count in zip(self._pieces, self._counts, strict=True):
            begin, end = max(first - at, 0), min(last - at, count)
            if begin < end:
                yield piece, entry, begin, end
            at += count

    def _rows_of_others(self, parts: Sequence[tuple[Piece, TensorEntry]]) -> TensorRows:
        """Return the rows that are cut in the same way out of other tensors."""
        pieces = tuple(replace(piece, file_name=str(i), file_shape=part.shape) for i, (piece, part) in enumerate(parts))
        entries = {str(i): part for i, (_, part) in enumerate(parts)}
        return TensorRows(WantedTensor(name="", pieces=pieces), entries, self._pages)

    def __getitem__(self, rows: slice) -> Array:
        """Return the rows of a slice without a step."""
        first, last, _ = rows.indices(self.shape[0])
        overlaps = list(self._overlaps(first, last))
        self._pages.read(sum(piece.read_values(end - begin) for piece, _, begin, end in overlaps))
        pieces = [piece.cut(entry, slice(begin, end)) for piece, entry, begin, end in overlaps]
        if not pieces:
            return np.zeros((0, *self.shape[1:]), np.float32)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
