"""The schema is consistent in itself, and FORMAT.md is what it generates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from wse_traces import open_trace, problems, schema
from wse_traces.format_page import PARSER, page

TRACES = Path(__file__).parents[2] / "traces"


def test_format_page_is_the_generated_one():
    stale = "python -m wse_traces.format_page > traces/FORMAT.md"
    assert (TRACES / "FORMAT.md").read_text(encoding="utf-8") == page(), f"stale, run: {stale}"


def test_reader_on_the_format_page_gives_what_the_library_gives(sample):
    assert PARSER in (TRACES / "FORMAT.md").read_text(encoding="utf-8")
    assert len([line for line in PARSER.splitlines() if line]) == 20
    names: dict = {}
    exec(PARSER, names)
    with open_trace(sample) as trace:
        for token in range(trace.rows("token")):
            own, plain = trace.steps(token), names["steps_of_token"](sample, token)
            assert plain.keys() <= own.keys()
            for name, column in plain.items():
                np.testing.assert_array_equal(own[name], column, err_msg=name)


GOLDEN = sorted(TRACES.glob("golden/v*/*.h5"))
assert GOLDEN, "no golden traces"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_golden_traces_of_every_version_are_valid(path):
    assert problems(path) == []
    with open_trace(path) as trace:
        assert trace.complete
        assert trace.rows("token") > 0
        assert trace.column("tokens/cycles").sum() > 0
        assert trace.version == int(path.parent.name.removeprefix("v"))


def test_file_names_its_axes_and_their_places(sample):
    with h5py.File(sample, "r") as file:
        for field in schema.FIELDS:
            attributes = file[field.path].attrs
            assert attributes["axes"].decode().split(",") == list(field.axes), field.path
            assert len(field.axes) == file[field.path].ndim, field.path
            assert (attributes["unit"].decode(), attributes["doc"].decode()) == (field.unit, field.doc), field.path
            assert len(file[field.path]) > 0, f"{field.path}: the sample leaves no table empty"
            settings = [getattr(file[field.path], name) for name in ("compression", "shuffle", "fletcher32")]
            assert settings == ["gzip", True, True], field.path
        assert file["steps/cycles_by"].attrs["labels_cause"] == b"hops,relays,compute,launch,crossing,host"
        assert file["links/words"].attrs["labels_direction"] == b"north,east,south,west"
        for path in ("sram/bytes_per_pe", "sram/stage_bytes"):
            assert file[path].attrs["labels_use"] == b"code,weights,kv,activations,buffers,free"


def test_file_has_the_command_that_prints_its_format(sample):
    with h5py.File(sample, "r") as file:
        command = file.attrs["format_doc"].decode()
    program, *arguments = command.split()
    assert program == "python"
    done = subprocess.run([sys.executable, *arguments], capture_output=True, check=True, text=True)
    assert done.stdout == page()
