"""Read chunked datasets. Each chunk is checked and decoded here, in bounded memory.

HDF5 returns chunks as they are stored. It could also decode them, but it trusts their contents. A
gzip chunk that contains too much data is inflated completely, no matter how large it becomes. If a
chunk contains too little data, HDF5 2.0 reads on and returns process memory as values. Only the
three filters that every HDF5 installation has are supported.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES: Final = 1 << 24
CHUNKS: Final = 1 << 16  # maximum in one read: each costs a look-up, even if it is small
_SUM_BYTES = 4
FILTERS: Final[Mapping[int, str]] = {
    h5py.h5z.FILTER_SHUFFLE: "shuffle",
    h5py.h5z.FILTER_DEFLATE: "gzip",
    h5py.h5z.FILTER_FLETCHER32: "sum",
}
Box = tuple[tuple[int, int], ...]


def storage_problems(dataset: Any) -> Iterator[str]:
    """Yield a message for each property of a dataset that prevents ``read_box`` from reading it.

    Such properties are external data, storage that is not chunked, chunks that are too large,
    unsupported filters or orders of filters, and fill values other than 0.
    """
    properties = dataset.get_create_plist()
    layout = properties.get_layout()
    if layout == h5py.h5d.VIRTUAL or properties.get_external_count():
        yield "its data is in other files"
        return
    if layout != h5py.h5d.CHUNKED:
        yield "not chunked"
        return
    size = math.prod(properties.get_chunk()) * dataset.dtype.itemsize
    if size > CHUNK_BYTES:
        yield f"chunks of {size:,} B, at most {CHUNK_BYTES:,} B"
    filters = [properties.get_filter(i) for i in range(properties.get_nfilters())]
    codes = [code for code, *_ in filters]
    for code, _, values, _ in filters:
        if code not in FILTERS:
            yield f"stored with filter {code}, allowed: {', '.join(FILTERS.values())}"
        if code == h5py.h5z.FILTER_SHUFFLE and values != (dataset.dtype.itemsize,):
            yield f"shuffled by {values} B, needed: {dataset.dtype.itemsize} B"
    ranks = [list(FILTERS).index(code) for code in codes if code in FILTERS]
    if any(a >= b for a, b in itertools.pairwise(ranks)):
        yield f"stored with {len(codes)} filters, needed: each at most once, in the order {', '.join(FILTERS.values())}"
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        fill = np.ones((), dataset.dtype)
        properties.get_fill_value(fill)
        if fill.tobytes().strip(b"\0"):
            yield f"missing elements read as {fill}, needed: 0"


def read_box(dataset: Any, box: Box) -> NDArray[Any]:
    """Return a box of a dataset: the elements in a range on each axis.

    Elements that are not stored are 0. Only chunks that overlap the box are read.

    Args:
        dataset: HDF5 identifier of a dataset without ``storage_problems``.
        box: For each axis, the first index and the index after the last.

    Raises:
        ValueError: A chunk is damaged, or more than ``CHUNKS`` chunks would be read.
        OSError: HDF5 cannot read a chunk.
        RuntimeError: HDF5 cannot read a chunk.
    """
    properties = dataset.get_create_plist()
    chunk, dtype = properties.get_chunk(), dataset.dtype
    filters = [FILTERS[properties.get_filter(i)[0]] for i in range(properties.get_nfilters())]
    values = np.zeros([max(stop - start, 0) for start, stop in box], dtype)
    if not values.size:
        return values
    corners = [range(start - start % size, stop, size) for (start, stop), size in zip(box, chunk, strict=True)]
    count = math.prod(map(len, corners))
    if count > CHUNKS:
        raise ValueError(f"{count:,} chunks to read, the limit is {CHUNKS:,}; read fewer rows at once")
    for corner in itertools.product(*corners):
        chunk_info = dataset.get_chunk_info_by_coord(corner)
        if chunk_info.byte_offset is None:
            continue
        if chunk_info.size > 2 * math.prod(chunk) * dtype.itemsize + 1024:  # gzip never adds this much
            raise ValueError(f"the chunk at {corner} claims {chunk_info.size:,} B")
        mask, data = dataset.read_direct_chunk(corner)
        applied = [name for i, name in enumerate(filters) if not mask >> i & 1]
        target, source = [], []
        for (start, stop), at, size in zip(box, corner, chunk, strict=True):
            first, last = max(start, at), min(stop, at + size)
            target.append(slice(first - start, last - start))
            source.append(slice(first - at, last - at))
        try:
            elements = _decode(data, applied, chunk, dtype, source[0])
        except ValueError as error:
            raise ValueError(f"the chunk at {corner}: {error}") from error
        values[tuple(target)] = elements[:, *source[1:]]
    return values


def _decode(data: bytes, filters: list[str], shape: tuple[int, ...], dtype: np.dtype[Any], rows: slice) -> NDArray[Any]:
    """Decode a stored chunk of a dataset, and return some of its rows.

    Args:
        data: Bytes of the chunk as stored.
        filters: Names of the filters that encoded the chunk, in the order in which they were
            applied.
        shape: Shape of the chunk.
        dtype: Type of the elements.
        rows: Rows to return.

    Raises:
        ValueError: The bytes do not decode to exactly one chunk of this shape.
    """
    size = math.prod(shape) * dtype.itemsize
    for name in reversed(filters):
        if name == "sum":
            data = _without_checksum(data)
        elif name == "gzip":
            data = _inflate(data, size + _SUM_BYTES)
    if len(data) != size:
        raise ValueError(f"{len(data):,} B, needed: {size:,} B")
    if "shuffle" not in filters:
        return np.frombuffer(data, dtype).reshape(shape)[rows]
    row_elements = math.prod(shape[1:])
    planes = np.frombuffer(data, "u1").reshape(dtype.itemsize, -1)[
        :, rows.start * row_elements : rows.stop * row_elements
    ]
    elements = np.empty((planes.shape[1], dtype.itemsize), "u1")
    for at, plane in enumerate(planes):
        elements[:, at] = plane
    return elements.view(dtype).reshape(-1, *shape[1:])


def _inflate(data: bytes, limit: int) -> bytes:
    """Decompress gzip data.

    Raises:
        ValueError: The data is damaged or incomplete, or longer than ``limit`` bytes.
    """
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(inflated) > limit or not stream.eof:
        raise ValueError(f"gzip of more than {limit:,} B" if len(inflated) > limit else "gzip that is cut off")
    return inflated


def _without_checksum(data: bytes) -> bytes:
    """Check the Fletcher-32 checksum at the end of the data, and return the data before it.

    The checksum consists of two sums modulo 65535 over big-endian 16-bit words. The second sum is
    the high half, and the checksum is stored in little-endian order. Source: J. G. Fletcher, IEEE
    Trans. Comm. 30 (1982) 247, and the implementation in HDF5.

    Raises:
        ValueError: The checksum is wrong.
    """
    body, end = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
    words = np.frombuffer(body + b"\0" * (len(body) % 2), ">u2").astype("<u8")
    first, second = int(words.sum()), int(words @ np.arange(len(words), 0, -1, dtype="<u8"))
    checksum = int.from_bytes(end, "little")
    if (
        len(end) < _SUM_BYTES
        or first % 65535 != (checksum & 0xFFFF) % 65535
        or second % 65535 != (checksum >> 16) % 65535
    ):
        raise ValueError("its bytes do not add up to their checksum")
    return body
