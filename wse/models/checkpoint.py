"""Checkpoint: the arrays of a model under our own names (`wse.models.tensors`), all checked when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wse.errors import BadModel, WseBug
from wse.models.config import FAMILIES
from wse.models.family import Family, Piece, WantedTensor
from wse.models.safetensors_file import TensorEntry, open_model_files
from wse.models.spec import ModelSpec


class Checkpoint:
    """The tensors that ``spec`` asks for, and no others."""

    def __init__(self, spec: ModelSpec, entries: Mapping[str, TensorEntry]) -> None:
        """Take the file's ``entries``; those the spec does not ask for must be harmless.

        Raises:
            BadModel: a tensor is missing, unexpected, or has the wrong shape or element type.
        """
        family = FAMILIES[spec.family]
        self.spec = spec
        used: dict[str, NDArray[Any]] = {}
        self._wanted = {wanted.name: wanted for wanted in family.tensors(spec, entries.keys())}
        for wanted in self._wanted.values():
            for piece in wanted.pieces:
                if piece.file_name not in entries:
                    raise _missing(wanted, piece, spec, entries)
                used[piece.file_name] = _checked(entries[piece.file_name], piece, spec)
        self._arrays = MappingProxyType(used)
        for name in entries.keys() - used.keys():
            _check_harmless(entries[name], family, spec, self.tensor("embedding"))

    @property
    def names(self) -> tuple[str, ...]:
        """Our names of all tensors: the tables first, then layer by layer."""
        return tuple(self._wanted)

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors in the file, a tied table counted once."""
        return sum(array.nbytes for array in self._arrays.values())

    def tensor(self, name: str) -> NDArray[Any]:
        """A read-only array, row-major, in the file's element type.

        A view of the file where the file has the tensor as we do and aligns it to its element size, else a copy.
        """
        if name not in self._wanted:
            msg = f"no tensor {name!r} in {self.spec.name}"
            raise WseBug(msg)
        cut = [piece.cut(self._arrays[piece.file_name]) for piece in self._wanted[name].pieces]
        array = cut[0] if len(cut) == 1 else np.concatenate(cut)
        if not (array.flags.aligned and array.flags.c_contiguous):
            array = np.array(array, order="C")
        array.flags.writeable = False
        return array


def open_checkpoint(folder: Path, spec: ModelSpec) -> Checkpoint:
    """The safetensors checkpoint of a model folder; errors as of `open_model_files` and `Checkpoint`."""
    return Checkpoint(spec, open_model_files(folder))


def _checked(entry: TensorEntry, wanted: Piece, spec: ModelSpec) -> NDArray[Any]:
    where = f"{entry.path}: tensor {entry.name!r}"
    if entry.shape != wanted.file_shape:
        msg = (
            f"{where} has shape {list(entry.shape)}, the config asks for {list(wanted.file_shape)}; "
            "use the config.json that belongs to these weights"
        )
        raise BadModel(msg)
    if entry.array.dtype.name != spec.dtype:
        msg = (
            f"{where} is {entry.array.dtype.name}, the config says {spec.dtype}; "
            "set torch_dtype to what the file holds, or convert the file"
        )
        raise BadModel(msg)
    return entry.array


def _missing(wanted: WantedTensor, piece: Piece, spec: ModelSpec, entries: Mapping[str, TensorEntry]) -> BadModel:
    where = next((str(entry.path.parent) for entry in entries.values()), spec.name)
    if wanted.name == "head":
        remedy = "set tie_word_embeddings to true if the head is the embedding, else fetch the weights again"
    else:
        remedy = "fetch the weights again, or use the config.json that belongs to them"
    return BadModel(f"{where}: tensor {piece.file_name!r} is missing; {remedy}")


def _check_harmless(entry: TensorEntry, family: Family, spec: ModelSpec, embedding: NDArray[Any]) -> None:
    if family.harmless_tensors.fullmatch(entry.name):
        return
    where = f"{entry.path}: tensor {entry.name!r}"
    if spec.tied_embedding and entry.name == family.tied_copy:
        if entry.array.dtype == embedding.dtype and np.array_equal(entry.array, embedding):
            return
        msg = f"{where} differs from the embedding that the config ties it to; set tie_word_embeddings to false"
        raise BadModel(msg)
    msg = (
        f"{where} is not part of a {spec.family} model of {spec.layer_count} layers; "
        "use the config.json that belongs to these weights"
    )
    raise BadModel(msg)
