from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import head, item, padded, tensor_info, text, write_arrays
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from tests.models.helpers import result_or_refusal
from wse.errors import BadModel
from wse.models.gguf.file import GgufFile
from wse.models.gguf.rules import stored_entry
from wse.models.gguf.tensor_places import SUPPORTED

A = np.arange(12, dtype=np.float32).reshape(3, 4)
AGAIN = "; fetch the file again"


def file_of(items: list[tuple[str, Any]], infos: bytes = b"", count: int = 0, data: bytes = b"") -> bytes:
    made = b"".join(text(key) + item(value) for key, value in items)
    return padded(head(count, len(items)) + made + infos) + data


def one(shape: tuple[int, ...] = (2, 4), number: int = 0, offset: int = 0) -> bytes:
    return file_of([], tensor_info("a", shape, number, offset), 1, b"\0" * 32)


KINDS = ", ".join(SUPPORTED)
FAULTS: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty" + AGAIN),
    ("short", b"GG", "ends inside its first four bytes: 4 bytes wanted at byte 0, 2 are left" + AGAIN),
    ("other", b"PK\3\4" + bytes(30), "does not begin with 'GGUF'; is it a GGUF file?"),
    ("version", head(0, 0, 1), "is GGUF version 1; supported: 2, 3"),
    ("big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is big-endian; convert it to little-endian"),
    ("tensors", head(2**40, 0), f"claims {2**40:,} tensors, the limit is 262,144" + AGAIN),
    ("cut", head(0, 1), "ends inside a key: 8 bytes wanted at byte 24, 0 are left" + AGAIN),
    ("long key", head(0, 1) + struct.pack("<Q", 2**60), f"a key claims {2**60:,} bytes, the limit is 65,535" + AGAIN),
    (
        "long text",
        head(0, 1) + text("k") + struct.pack("<IQ", 8, 2**63),
        f"k claims {2**63:,} bytes, the limit is 16,777,216" + AGAIN,
    ),
    ("not text", head(0, 1) + text("k") + struct.pack("<I", 8) + text(b"\xff"), "k at byte 45 is not UTF-8" + AGAIN),
    ("kind", head(0, 1) + text("k") + struct.pack("<I", 13), "k is of kind 13, which the format does not define"),
    ("array of arrays", head(0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1), "k is an array of kind 9; numbers and"),
    (
        "long array",
        head(0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 2**50),
        f"k claims {2**50:,} elements, the limit is 16,777,216" + AGAIN,
    ),
    ("same key", file_of([("k", 1), ("k", 2)]), "the key 'k' is given twice" + AGAIN),
    ("alignment", file_of([("general.alignment", 24)]), "general.alignment = 24 must be a power of two up to"),
    ("parts", file_of([("split.count", 3)]), "is one of 3 parts of a model"),
    ("same tensor", file_of([], 2 * tensor_info("a", (4,), 0, 0), 2, bytes(32)), "tensor 'a' is there twice" + AGAIN),
    ("no dimensions", one(()), "tensor 'a' has 0 dimensions, the limit is 4" + AGAIN),
    ("huge", one((2**40, 2**40)), f"tensor 'a': shape [{2**40}, {2**40}] is not a list of plausible sizes" + AGAIN),
    ("offset", one(offset=8), "tensor 'a' begins at byte 8 of the data, which is not a multiple of 32" + AGAIN),
    ("past the end", one((3, 4)), "tensor 'a' takes 48 bytes from byte 96, the file has 128; it may be cut short"),
    ("no whole blocks", one((2, 40), 8), "tensor 'a': rows of 40 are not whole blocks of 32 of Q8_0" + AGAIN),
    (
        "unsupported",
        one((2, 256), 16),
        f"1 tensors, 'a' first, are stored as IQ2_XXS, which is not supported; supported: {KINDS}",
    ),
    (
        "unknown",
        one((2, 256), 99),
        f"1 tensors, 'a' first, are stored as type 99, which is not supported; supported: {KINDS}",
    ),
    (
        "overlap",
        file_of([], tensor_info("a", (9,), 0, 0) + tensor_info("b", (4,), 0, 32), 2, bytes(64)),
        "tensors 'a' and 'b' overlap" + AGAIN,
    ),
]


@pytest.mark.parametrize(("content", "tail"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, tail: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert refusal(BadModel, GgufFile, path).startswith(f"{path}: {tail}")


def test_every_cut_of_a_good_file_is_refused(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "m.gguf", {"k": "text", "words": ["a", "b"], "n": 3}, {"a": A})
    data = path.read_bytes()
    for length in range(len(data) - 16):  # the padding behind the last tensor is not needed
        path.write_bytes(data[:length])
        refusal(BadModel, GgufFile, path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_any_bytes_changed_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = write_arrays(tmp_path / "m.gguf", {"k": "text", "words": ["a", "b"], "n": 3}, {"a": A, "b": A[0]})
    content = bytearray(path.read_bytes())
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 160), st.integers(0, 255)), min_size=1, max_size=4)):
        content[at] = value
    path.write_bytes(content)
    gguf = result_or_refusal(BadModel, GgufFile, path)
    for tensor in gguf.tensors.values() if gguf is not None else ():
        assert stored_entry(gguf, tensor).array().nbytes <= 8 * len(content)
