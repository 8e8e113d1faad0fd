"""Reader and writer of safetensors: a checked header, then tensors that are views of the mapped file.

    8 bytes   length n of the header, little-endian
    n bytes   JSON object: tensor name -> dtype, shape, data_offsets [begin, end) counted from byte 8 + n
    the rest  the elements, little-endian, row-major, without holes or overlaps

Nothing is unpickled, and what is read is not copied.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wse.errors import BadModel
from wse.models.configs.json_file import parse_object, read_object
from wse.models.tensors.tensor_entry import MappedFile, TensorEntry, mapped_array, plain_entry

DTYPES: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "F32": np.dtype("<f4"),
        "F16": np.dtype("<f2"),
        "BF16": np.dtype(ml_dtypes.bfloat16),
        "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
        **{name: np.dtype(code) for name, code in (("BOOL", "?"), ("U8", "u1"), ("I8", "i1"), ("F64", "<f8"))},
        **{f"{sign.upper()}{8 * size}": np.dtype(f"<{sign}{size}") for sign in "iu" for size in (2, 4, 8)},
    }
)
"""Element types that can be read; which of them a weight may have is for `wse.models.tensors.checkpoint` to say."""

_KINDS: Final = {dtype: kind for kind, dtype in DTYPES.items()}

OTHER_DTYPES: Final = frozenset(
    {*("F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), "C64"}
)
HEADER_LIMIT_BYTES: Final = 100_000_000  # the format's own
INDEX_LIMIT_BYTES: Final = 64 * 2**20
MOST_DIMENSIONS: Final = 32
MOST_NAMED: Final = 10
MOST_ELEMENTS: Final = 2**48
FETCH_AGAIN: Final = "fetch the file again"


def open_model_files(folder: Path) -> dict[str, TensorEntry] | None:
    """Return the tensors of a model folder: model.safetensors, or the shards of its index; None without either.

    Raises:
        BadModel: one of them cannot be used.
    """
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists():
        return open_safetensors(single)
    return open_sharded(index) if index.exists() else None


def open_sharded(index: Path) -> dict[str, TensorEntry]:
    """Return the tensors of every shard of a model.safetensors.index.json, all in the same folder.

    Raises:
        BadModel: the index is malformed, names a file elsewhere, or disagrees with the shards.
    """
    weight_map = read_object(index, INDEX_LIMIT_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        msg = f"{index}: weight_map must be an object of tensor name to file name; {FETCH_AGAIN}"
        raise BadModel(msg)
    for tensor, name in weight_map.items():
        if not isinstance(name, str) or not _is_plain_file_name(name):
            msg = (
                f"{index}: {tensor!r} is in {name!r}; a shard must be a .safetensors file "
                "beside the index, named without folders"
            )
            raise BadModel(msg)
    names = sorted(set(weight_map.values()))
    _check_present(index, names)
    entries: dict[str, TensorEntry] = {}
    for name in names:
        for tensor, entry in open_safetensors(index.parent / name).items():
            if tensor in entries:
                msg = f"{entry.path}: tensor {tensor!r} is also in {entries[tensor].path.name}; {FETCH_AGAIN}"
                raise BadModel(msg)
            entries[tensor] = entry
    for tensor, name in weight_map.items():
        if tensor not in entries or entries[tensor].path.name != name:
            msg = f"{index}: {tensor!r} is not in {name}, where the index puts it; fetch index and shards again"
            raise BadModel(msg)
    return entries


def open_safetensors(path: Path) -> dict[str, TensorEntry]:
    """Return the tensors of one file by name, in the order of its header.

    Raises:
        BadModel: the file is missing, cut short, or breaks the format; the first fault is named.
    """
    file = MappedFile(path)
    header, data_begin = _read_header(file)
    header.pop("__metadata__", None)
    entries, ranges = {}, []
    for name, fields in header.items():
        entry, begin, end = _view(file, name, fields, data_begin)
        entries[name] = entry
        ranges.append((begin, end, name))
    _check_ranges(path, sorted(ranges), file.bytes.size - data_begin)
    return entries


def write_safetensors(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays of the types in `DTYPES`, one after another, into an open file."""
    header, at = {}, 0
    for name, array in arrays.items():
        offsets = [at, at + array.nbytes]
        header[name] = {"dtype": _KINDS[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        at += array.nbytes
    text = json.dumps(header).encode()
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        file.write(np.ascontiguousarray(array).data)


def _read_header(file: MappedFile) -> tuple[dict[str, Any], int]:
    """Return the header and the offset of the data after it."""
    path, size_bytes, prefix = file.path, file.bytes.size, file.bytes[:8].tobytes()
    if len(prefix) < 8:
        msg = f"{path}: has {size_bytes} bytes, a safetensors file has at least 10; {FETCH_AGAIN}"
        raise BadModel(msg)
    length = int.from_bytes(prefix, "little")
    if length > HEADER_LIMIT_BYTES:
        msg = (
            f"{path}: claims a header of {length:,} bytes, the limit is {HEADER_LIMIT_BYTES:,}; "
            "is it a safetensors file?"
        )
        raise BadModel(msg)
    if 8 + length > size_bytes:
        msg = f"{path}: claims a header of {length:,} bytes, only {size_bytes - 8:,} follow; {FETCH_AGAIN}"
        raise BadModel(msg)
    data = file.bytes[8 : 8 + length].tobytes()
    if not data.startswith(b"{"):
        msg = f"{path}: its header does not begin with '{{'; is it a safetensors file?"
        raise BadModel(msg)
    return parse_object(data, f"{path}: header"), 8 + length


def _view(file: MappedFile, name: str, fields: Any, data_begin: int) -> tuple[TensorEntry, int, int]:
    """Return the entry of one tensor, and the bytes after ``data_begin`` that it occupies."""
    path, data_bytes = file.path, file.bytes.size - data_begin
    where = f"{path}: tensor {name!r}"
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        msg = f"{where}: must have dtype, shape and data_offsets and nothing else; {FETCH_AGAIN}"
        raise BadModel(msg)
    kind, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        known = isinstance(kind, str) and kind in OTHER_DTYPES
        verdict = "is not supported" if known else "is no element type of the format"
        msg = f"{where}: dtype {_short(kind)} {verdict}; supported: {', '.join(DTYPES)}"
        raise BadModel(msg)
    if not _are_sizes(shape) or len(shape) > MOST_DIMENSIONS or math.prod(max(n, 1) for n in shape) > MOST_ELEMENTS:
        msg = f"{where}: shape {_short(shape)} is not a list of plausible sizes; {FETCH_AGAIN}"
        raise BadModel(msg)
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= data_bytes:
        msg = (
            f"{where}: data_offsets {_short(offsets)} must be [begin, end] inside the "
            f"{data_bytes:,} bytes of data; the file may be cut short: {FETCH_AGAIN}"
        )
        raise BadModel(msg)
    dtype, (begin, end) = DTYPES[kind], offsets
    if end - begin != math.prod(shape) * dtype.itemsize:
        msg = (
            f"{where}: has {end - begin:,} bytes, shape {shape} of {kind} needs "
            f"{math.prod(shape) * dtype.itemsize:,}; {FETCH_AGAIN}"
        )
        raise BadModel(msg)
    array = mapped_array(file, data_begin + begin, tuple(shape), dtype)
    return plain_entry(name, kind, array, file), begin, end


def _check_ranges(path: Path, ranges: list[tuple[int, int, str]], size_bytes: int) -> None:
    """Check that every byte of the data belongs to exactly one tensor, as the format requires."""
    expected = 0
    for begin, end, name in ranges:
        if begin != expected:
            fault = "overlaps the one before" if begin < expected else "leaves a hole before it"
            msg = f"{path}: tensor {name!r} begins at byte {begin:,} of the data and {fault}; {FETCH_AGAIN}"
            raise BadModel(msg)
        expected = end
    if expected != size_bytes:
        msg = f"{path}: has {size_bytes:,} bytes of data, its tensors take {expected:,}; {FETCH_AGAIN}"
        raise BadModel(msg)


def _check_present(index: Path, names: list[str]) -> None:
    missing = [name for name in names if not (index.parent / name).exists()]
    if missing:
        named = ", ".join(missing[:MOST_NAMED]) + (", …" if len(missing) > MOST_NAMED else "")
        msg = f"{index}: {len(missing)} of {len(names)} shards are missing: {named}; fetch them into the same folder"
        raise BadModel(msg)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**63 for n in value
    )


def _is_plain_file_name(name: str) -> bool:
    return name.endswith(".safetensors") and not any(c in name for c in "/\\:\0") and not name.startswith(".")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
