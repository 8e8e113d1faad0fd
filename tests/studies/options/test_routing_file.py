"""Tests of the files of selected experts (``--routing``): reading CSV files, and refused files."""

import tracemalloc
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec

from wse.errors import BadInput
from wse.program.routing import EVEN
from wse.studies.options.routing import LIMIT_BYTES, read_choices, read_routing

SPEC: Final = mixture_spec(MIXTURES["softmax"], layers=3)  # each token selects two of seven experts in layers 1 and 2
HEADER: Final = "token,layer,experts"


def file_of(path: Path, *rows: str, header: str = HEADER) -> str:
    """Write a CSV file and return its path."""
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def test_rows_may_have_any_order_and_further_columns(tmp_path: Path) -> None:
    rows = ("2,x,7,6 3", "1,x,9,0 1", "1,,7,5 4", "2,y,9,2 0")
    routing = read_choices("--routing", file_of(tmp_path / "a.csv", *rows, header="layer,note,token,experts"), SPEC)
    assert routing.layers == (1, 2)
    assert routing.choices.tolist() == [[[4, 5], [0, 1]], [[3, 6], [0, 2]]]
    assert np.array_equal(routing.probabilities.sum(axis=1), [2, 2])
    assert routing.probabilities[1].tolist() == [0.5, 0, 0.5, 0.5, 0, 0, 0.5]


def test_zipf_routes_layers_with_experts_and_exponent_0_is_even() -> None:
    assert read_routing("zipf:0", SPEC) is EVEN
    assert read_routing("even", mixture_spec(MIXTURES["shared"], layers=1)) is EVEN
    routing = read_routing("zipf:1.5", SPEC)
    assert (routing.name, routing.layers, routing.choices.shape[2]) == ("zipf:1.5", (1, 2), 2)


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (("0,1,0 1",), ("1 layer (1)", "2 layers (1 to 2)")),
        (("0,0,0 1", "0,1,0 1", "0,2,0 1"), ("3 layers (0 to 2)", "2 layers (1 to 2)")),
        (("0,1,0 7", "0,2,0 1"), ("expert 7", "has 7 per layer")),
        (("0,1,0 1", "0,2,3"), ("token 0, layer 2: 1 experts", "selects 2")),
        (("0,1,0 1", "0,2,3 4", "5,1,0 1"), ("token 5, layer 2: 0 experts", "selects 2")),
        (("0,1,0 1", "0,2,3 3"), ("the same expert twice",)),
        (("0,1,0 one",), ("line 2: 'one'", "whole numbers")),
        (("0,1,-1 1",), ("line 2: '-1'", "whole numbers")),
        (("0,1,0 99999999999",), ("line 2: '99999999999'",)),
        (("0,1",), ("line 2: 2 values under 3 columns",)),
        ((), ("no layers", "2 layers (1 to 2)")),
    ],
)
def test_refusal_of_rows_states_the_numbers_of_the_model(
    tmp_path: Path, rows: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    with pytest.raises(BadInput) as refusal:
        read_choices("--routing", file_of(tmp_path / "a.csv", *rows), SPEC)
    assert [part for part in parts if part not in str(refusal.value)] == []


def test_missing_rows_use_no_memory(tmp_path: Path) -> None:
    """Each of 4,000 tokens has one of 2,000 layers. A number for each token and layer would take 64 MB."""
    path = file_of(tmp_path / "a.csv", *(f"{token},{1 + token % 2000},0 1" for token in range(4_000)))
    spec = mixture_spec(MIXTURES["softmax"], layers=2001)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match="token 1, layer 1: 0 experts"):
            read_choices("--routing", path, spec)
        assert tracemalloc.get_traced_memory()[1] < LIMIT_BYTES + 10e6
    finally:
        tracemalloc.stop()


def test_too_large_damaged_and_binary_files_are_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.csv"
    with large.open("wb") as stream:
        stream.truncate(LIMIT_BYTES + 1)
    damaged = tmp_path / "damaged.h5"
    damaged.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, part in ((large, "is over 67,108,864 bytes"), (damaged, "damaged"), (binary, "not a CSV file in UTF-8")):
        with pytest.raises(BadInput, match=part):
            read_choices("--routing", str(path), SPEC)
