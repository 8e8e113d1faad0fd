"""The trace of a run whose experts are apart from their layers: words by layer add up though wafers are left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.inspect.test_expert_load import prepared_for
from wse.hardware.mesh import mesh_on
from wse.studies.compile.choose import compile_program
from wse.studies.run.execute import execute
from wse.tracing.query.inspect_request import InspectRequest
from wse.tracing.query.request import inspect_trace
from wse_mappings.cuts.expert_groups import DEDICATED
from wse_traces import open_trace, problems
from wse_traces.reader.planes import layer_link_words


def test_words_and_bytes_in_the_trace_are_those_that_moved(tmp_path: Path) -> None:
    """The reader of links adds up layers; the report counts bytes pass by pass."""
    plain = prepared_for(DEDICATED)
    options = replace(plain.options, mapping="expert", wafers=3)
    prepared = replace(plain, options=options, wafer=mesh_on(plain.whole, 6, 6))
    path = tmp_path / "run.h5"
    report = execute(prepared, compile_program(prepared), trace=path).to_dict()
    assert problems(path) == []
    with open_trace(path) as trace:
        for wafer in range(3):
            words = trace.column("links/words", wafer, wafer + 1)[0]
            assert words.any()
            assert np.array_equal(layer_link_words(trace, wafer=wafer), words)
        phases = trace.column("schedules/phase")[trace.column("passes/schedule")]
        crossings = trace.table("crossing")
        decoded = phases[crossings["pass"]] == phases.max()
        between = decoded & (crossings["src_wafer"] >= 0) & (crossings["dst_wafer"] >= 0)
        tokens = (phases == phases.max()).sum()
        told = report["crossing"]["bytes_per_token"] * tokens
        assert crossings["bytes"][between].sum() == pytest.approx(told)
    assert inspect_trace(InspectRequest(trace=path)).to_dict()["system"]["mapping"] == "expert"
