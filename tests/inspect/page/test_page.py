"""Tests of the page as a file: size, security policy, reproducible content, and packed arrays."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import wse
from tests.inspect.page.conftest import IMAGE, SCRIPT
from tests.inspect.runs import STORY
from tests.traces.conftest import HEADER, write
from wse.tracing.page.pack import Packer
from wse.tracing.page.page import SCRIPTS, view_page
from wse_traces import TraceWriter

LIMIT_BYTES = 8_000_000


def unpack(packed: dict[str, Any], blobs: list[str]) -> np.ndarray:
    """Unpack an array as the script of the page does, with numpy."""
    values = np.frombuffer(zlib.decompress(base64.b64decode(blobs[packed["blob"]])), "<" + packed["type"])
    starts = np.array(packed.get("starts", range(packed["shape"][0])), int)
    values = values.reshape(len(starts), *packed["shape"][1:])
    whole = values if packed["type"] == "f8" else np.cumsum(values, axis=0, dtype=values.dtype)
    return np.repeat(whole, np.diff(starts, append=packed["shape"][0]), axis=0)


def data_of(page: bytes) -> dict[str, Any]:
    found = re.findall(rb'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([(0, 255), (0, 2**16 - 1), (0, 2**32 - 1), (-(2**31), 2**31 - 1), (0, 2**53)]).flatmap(
        lambda ends: hnp.arrays(
            "<i8", hnp.array_shapes(min_dims=1, max_dims=2, max_side=9), elements=st.integers(*ends)
        )
    )
)
def test_packed_arrays_come_back(values: np.ndarray) -> None:
    pack = Packer()
    packed = pack(values)
    assert (packed["least"], packed["most"]) == (min(0, values.min()), max(0, values.max()))
    np.testing.assert_array_equal(unpack(packed, pack.blobs), values)
    assert pack(values.copy()) == packed
    assert len(pack.blobs) == 1


@pytest.mark.parametrize("largest", [3, 2**40])
def test_repeated_rows_are_packed_once(largest: int) -> None:
    values = np.repeat(np.array([[1, 2], [0, largest], [1, 2]]), [5, 1, 7], axis=0)
    pack = Packer()
    packed = pack(values)
    assert packed["starts"] == [0, 5, 6]
    np.testing.assert_array_equal(unpack(packed, pack.blobs), values)


def test_packer_omits_arrays_that_do_not_fit() -> None:
    pack = Packer(max_bytes=200)
    assert pack(np.random.default_rng(0).integers(0, 1 << 30, 1000)) is None
    assert pack(np.zeros(1000, int)) is not None
    assert pack.remaining_bytes == 200 - len(pack.blobs[0])


def test_page_contains_the_trace_and_is_reproducible(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    page = view_page([path])
    assert page == view_page([path])
    data = data_of(page)
    (trace,) = data["traces"]
    assert (trace["model"], trace["rows"], trace["wafers"]) == (HEADER.model, HEADER.rows, HEADER.wafers)
    words = [unpack(trace["planes"][1][f"links.{way}"], data["blobs"]) for way in data["directions"]]
    np.testing.assert_array_equal(words, np.arange(120).reshape(4, 6, 5) + 1)
    busy = trace["planes"][1]["busy"]
    assert (busy["type"], busy["most"]) == ("f8", 2**40 + 1)


def test_names_from_a_trace_are_not_markup(hostile: Path) -> None:
    page = view_page([hostile])
    text = page.decode()
    assert SCRIPT not in text
    assert IMAGE not in text
    assert text.count("<script") == text.count("</script>") == 2
    assert text.count("<img") == 0
    assert data_of(page)["traces"][0]["model"] == SCRIPT


def test_page_allows_its_own_script_and_style_only() -> None:
    page = view_page([STORY]).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy[1].startswith("default-src 'none'; ")
    for tag, pattern in {"script": r'<script type="module">(.*?)</script>', "style": "<style>(.*?)</style>"}.items():
        (inline,) = re.findall(pattern, page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest.replace('+', '&#43;')}'" in policy[1].replace("+", "&#43;")
    assert "unsafe" not in policy[1]
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", page)


def test_every_script_of_the_package_is_on_the_page() -> None:
    folder = Path(str(files("wse.tracing.page"))) / "script"
    assert set(SCRIPTS) == {str(path.relative_to(folder)) for path in folder.rglob("*.js")}


def test_scripts_of_pages_create_text_nodes_only() -> None:
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(|new Function|</script"
    for path in Path(wse.__file__).parent.rglob("*.js"):
        assert not re.findall(markup, path.read_text(encoding="utf-8")), path


@pytest.mark.slow
def test_page_of_a_full_wafer_with_random_links_stays_below_the_limit(tmp_path: Path) -> None:
    header = replace(HEADER, wafers=1, rows=994, cols=750)
    random = np.random.default_rng(0)
    with TraceWriter(tmp_path / "full.h5", header) as trace:
        origin = {name: [0] for name in ("wafer", "row", "col", "first_layer")}
        stage = {**origin, "rows": [994], "cols": [750], "last_layer": [1]}
        trace.append_sram({**stage, "stage_bytes": [[100, 200, 300, 0, 50, 350]]}, pe_bytes=1000)
        trace.append_plane("links/words", random.integers(0, 1 << 20, (4, 994, 750)))
        trace.append_plane("pe/busy_cycles", np.full((994, 750), 1 << 33))
    page = view_page([tmp_path / "full.h5"])
    assert 1_000_000 < len(page) < LIMIT_BYTES
    (shown,) = data_of(page)["traces"]
    assert "busy" in shown["planes"][0]
    left_out = 4 - sum(name.startswith("links") for name in shown["planes"][0])
    assert 0 < left_out < 4
    assert f"{left_out} maps of wafers found no room on this page; see wse export." in shown["notes"]
