"""Read and write safetensors files. Tensors are views of the mapped file.

    8 bytes   length n of the header, little-endian
    n bytes   JSON object: tensor name -> dtype, shape, data_offsets [begin, end) after byte 8 + n
    the rest  the elements, little-endian, row-major, without gaps or overlaps

The header is checked completely before any tensor is used. Nothing is unpickled or copied.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wse.errors import BadModel
from wse.files import parse_object, read_object, short_repr
from wse.models.tensors.tensor_entry import MappedFile, TensorEntry, mapped_array, plain_entry

DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    **{name: np.dtype(code) for name, code in (("BOOL", "?"), ("U8", "u1"), ("I8", "i1"), ("F64", "<f8"))},
    **{f"{sign.upper()}{8 * size}": np.dtype(f"<{sign}{size}") for sign in "iu" for size in (2, 4, 8)},
}
"""Element types that can be read. `Checkpoint` checks which types are acceptable for weights."""

_KINDS: Final = {dtype: kind for kind, dtype in DTYPES.items()}

OTHER_DTYPES: Final = frozenset(
    {*("F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), "C64"}
)
HEADER_LIMIT_BYTES: Final = 100_000_000  # defined by the format
INDEX_LIMIT_BYTES: Final = 64 * 2**20
MAX_DIMENSIONS: Final = 32
MAX_NAMED: Final = 10
MAX_ELEMENTS: Final = 2**48
FETCH_AGAIN: Final = "fetch the file again"


def open_model_files(folder: Path) -> dict[str, TensorEntry] | None:
    """Open the safetensors files in a model folder and return their tensors, keyed by name.

    The folder contains model.safetensors, or else several files (shards) and an index of them.

    Returns:
        The tensors, or None if the folder has no safetensors files.

    Raises:
        BadModel: A file cannot be used.
    """
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists():
        return open_safetensors(single)
    return open_sharded(index) if index.exists() else None


def open_sharded(index: Path) -> dict[str, TensorEntry]:
    """Open all files that a model.safetensors.index.json lists, and return their tensors.

    1. Read the index and check that it names only files next to it.
    2. Open all files, and check that no tensor is in two of them.
    3. Check that every tensor is in the file that the index names.

    Args:
        index: Path of the index. The files are in the same folder.

    Returns:
        The tensors, keyed by name.

    Raises:
        BadModel: The index is malformed, names a file in another folder, or does not match the
            files.
    """
    weight_map = read_object(index, INDEX_LIMIT_BYTES).get("weight_map")  # 1
    if not isinstance(weight_map, dict) or not weight_map:
        raise BadModel(f"{index}: weight_map must be an object of tensor name to file name; {FETCH_AGAIN}")
    for tensor, name in weight_map.items():
        if not isinstance(name, str) or not _is_plain_file_name(name):
            raise BadModel(
                f"{index}: {tensor!r} is in {name!r}; a shard must be a .safetensors file "
                "beside the index, named without folders"
            )
    names = sorted(set(weight_map.values()))  # 2
    _check_present(index, names)
    entries: dict[str, TensorEntry] = {}
    for name in names:
        for tensor, entry in open_safetensors(index.parent / name).items():
            if tensor in entries:
                raise BadModel(f"{entry.path}: tensor {tensor!r} is also in {entries[tensor].path.name}; {FETCH_AGAIN}")
            entries[tensor] = entry
    for tensor, name in weight_map.items():  # 3
        if tensor not in entries or entries[tensor].path.name != name:
            raise BadModel(
                f"{index}: {tensor!r} is not in {name}, where the index puts it; fetch index and shards again"
            )
    return entries


def open_safetensors(path: Path) -> dict[str, TensorEntry]:
    """Open a safetensors file, and return its tensors in the order of the header.

    Returns:
        The tensors, keyed by name.

    Raises:
        BadModel: The file is missing, incomplete, or violates the format. The message names the
            first fault.
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
    """Write arrays to an open file in the safetensors format.

    Args:
        file: File opened for writing bytes.
        arrays: Arrays, keyed by name. Their element types must be among `DTYPES`.
    """
    header, offset = {}, 0
    for name, array in arrays.items():
        offsets = [offset, offset + array.nbytes]
        header[name] = {"dtype": _KINDS[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        offset += array.nbytes
    text = json.dumps(header).encode()
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        file.write(np.ascontiguousarray(array).data)


def _read_header(file: MappedFile) -> tuple[dict[str, Any], int]:
    """Return the parsed header of a safetensors file, and the offset of the data after it."""
    path, size_bytes, prefix = file.path, file.bytes.size, file.bytes[:8].tobytes()
    if len(prefix) < 8:
        raise BadModel(f"{path}: has {size_bytes} bytes, a safetensors file has at least 10; {FETCH_AGAIN}")
    length = int.from_bytes(prefix, "little")
    if length > HEADER_LIMIT_BYTES:
        raise BadModel(
            f"{path}: claims a header of {length:,} bytes, the limit is {HEADER_LIMIT_BYTES:,}; "
            "is it a safetensors file?"
        )
    if 8 + length > size_bytes:
        raise BadModel(f"{path}: claims a header of {length:,} bytes, only {size_bytes - 8:,} follow; {FETCH_AGAIN}")
    data = file.bytes[8 : 8 + length].tobytes()
    if not data.startswith(b"{"):
        raise BadModel(f"{path}: its header does not begin with '{{'; is it a safetensors file?")
    return parse_object(data, f"{path}: header"), 8 + length


def _view(file: MappedFile, name: str, fields: Any, data_begin: int) -> tuple[TensorEntry, int, int]:
    """Return the tensor that a header entry describes, and its byte range.

    Args:
        file: The file.
        name: Name of the tensor.
        fields: Header entry.
        data_begin: Offset of the data in the file.

    Returns:
        The tensor, the offset of its first byte, and the offset after its last byte, both relative
        to ``data_begin``.

    Raises:
        BadModel: The entry is malformed, not supported, or outside the file.
    """
    path, data_bytes = file.path, file.bytes.size - data_begin
    place = f"{path}: tensor {name!r}"
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise BadModel(f"{place}: must have dtype, shape and data_offsets and nothing else; {FETCH_AGAIN}")
    kind, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        is_known = isinstance(kind, str) and kind in OTHER_DTYPES
        verdict = "is not supported" if is_known else "is not an element type of the format"
        raise BadModel(f"{place}: dtype {short_repr(kind)} {verdict}; supported: {', '.join(DTYPES)}")
    if not _are_sizes(shape) or len(shape) > MAX_DIMENSIONS or math.prod(max(n, 1) for n in shape) > MAX_ELEMENTS:
        raise BadModel(f"{place}: shape {short_repr(shape)} is not a list of plausible sizes; {FETCH_AGAIN}")
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= data_bytes:
        raise BadModel(
            f"{place}: data_offsets {short_repr(offsets)} must be [begin, end] inside the "
            f"{data_bytes:,} bytes of data; the file may be cut short: {FETCH_AGAIN}"
        )
    dtype, (begin, end) = DTYPES[kind], offsets
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise BadModel(
            f"{place}: has {end - begin:,} bytes, shape {shape} of {kind} needs "
            f"{math.prod(shape) * dtype.itemsize:,}; {FETCH_AGAIN}"
        )
    array = mapped_array(file, data_begin + begin, tuple(shape), dtype)
    return plain_entry(name, kind, array, file), begin, end


def _check_ranges(path: Path, ranges: list[tuple[int, int, str]], size_bytes: int) -> None:
    """Raise an error unless every byte of the data belongs to exactly one tensor.

    Args:
        path: Path of the file, for the message.
        ranges: First byte, byte after the last one, and name of each tensor, sorted.
        size_bytes: Size of the data.
    """
    next_byte = 0
    for begin, end, name in ranges:
        if begin != next_byte:
            fault = "overlaps the one before" if begin < next_byte else "leaves a hole before it"
            raise BadModel(f"{path}: tensor {name!r} begins at byte {begin:,} of the data and {fault}; {FETCH_AGAIN}")
        next_byte = end
    if next_byte != size_bytes:
        raise BadModel(f"{path}: has {size_bytes:,} bytes of data, its tensors take {next_byte:,}; {FETCH_AGAIN}")


def _check_present(index: Path, names: list[str]) -> None:
    """Raise an error that lists the missing files of a sharded checkpoint, if any.

    Args:
        index: Path of the index, in whose folder the files are expected.
        names: Names of the files.
    """
    missing_files = [name for name in names if not (index.parent / name).exists()]
    if missing_files:
        listed_names = ", ".join(missing_files[:MAX_NAMED]) + (", …" if len(missing_files) > MAX_NAMED else "")
        count = f"{len(missing_files)} of {len(names)} shards are missing"
        raise BadModel(f"{index}: {count}: {listed_names}; fetch them into the same folder")


def _are_sizes(value: Any) -> bool:
    """Return whether a value is a list of integers from 0 to 2^63 - 1, as a shape must be."""
    return isinstance(value, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**63 for n in value
    )


def _is_plain_file_name(name: str) -> bool:
    """Return whether a name denotes a visible .safetensors file and contains no folder."""
    return name.endswith(".safetensors") and not any(c in name for c in "/\\:\0") and not name.startswith(".")
