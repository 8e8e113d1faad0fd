"""Files of ``wse serve-sim``: arrivals that it reads, and the page that it writes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wse.errors import BadInput
from wse.serving.simulation.workload import FAST, NO_PREFIX, NORMAL
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.serve import arrivals_file
from wse.studies.serve.arrivals_file import read_arrivals
from wse.studies.serve.page.page import as_html
from wse.studies.serve.request import ServeRequest
from wse.studies.serve.study import serve

HEAD = "arrival_s,prompt_tokens,new_tokens\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "arrivals.csv"
    path.write_bytes(text.encode())
    return path


def test_rows_are_requests_in_their_order(tmp_path: Path) -> None:
    head = "new_tokens, prompt_tokens,arrival_s,tier,prefix,prefix_tokens"
    rows = ("\ufeff" + head, "5,10,0,fast,a,4", "", "6,20,0.5,,,", "7,30,0.5,normal,b,8", "")
    work = read_arrivals(written(tmp_path, "\r\n".join(rows)), 4096, "its context")
    assert work.arrival_s.tolist() == [0, 0.5, 0.5]
    assert work.prompt_tokens.tolist() == [10, 20, 30]
    assert work.new_tokens.tolist() == [5, 6, 7]
    assert work.tier.tolist() == [FAST, NORMAL, NORMAL]
    assert work.prefix.tolist() == [0, NO_PREFIX, 1]
    assert work.prefix_tokens.tolist() == [4, 0, 8]
    assert work.most_tokens == 37


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["row 1", "column arrival_s is missing"]),
        (HEAD, ["there is no request"]),
        ("arrival_s,prompt_tokens,new_token\n", ["row 1", "'new_token'", "did you mean 'new_tokens'?"]),
        ("arrival_s,prompt_tokens,new_tokens,new_tokens\n", ["row 1", "twice"]),
        (HEAD + "0,1\n", ["row 2", "2 values under 3 columns"]),
        (HEAD + "0,1,1\n-1,1,1\n", ["row 3", "arrival_s '-1'"]),
        (HEAD + "nan,1,1\n", ["row 2", "arrival_s 'nan'"]),
        (HEAD + "soon,1,1\n", ["row 2", "arrival_s 'soon'"]),
        (HEAD + "2,1,1\n1,1,1\n", ["row 3", "arrival_s 1 is before 2", "sort rows"]),
        (HEAD + "0,0,1\n", ["row 2", "prompt_tokens '0'", "at least 1"]),
        (HEAD + "0,1,0\n", ["row 2", "new_tokens '0'", "at least 1"]),
        (HEAD + "0,1.5,1\n", ["row 2", "prompt_tokens '1.5'"]),
        (HEAD + f"0,1,{'9' * 5000}\n", ["row 2", "new_tokens", "whole number"]),
        (HEAD.replace("\n", ",tier\n") + "0,1,1,slow\n", ["row 2", "unknown tier 'slow'", "fast, normal"]),
        (HEAD.replace("\n", ",prefix\n") + "0,2,1,a\n", ["row 2", "prefix 'a' with prefix_tokens ''", "give both"]),
        (HEAD.replace("\n", ",prefix,prefix_tokens\n") + "0,2,1,a,2\n", ["row 2", "fewer than the 2 of the prompt"]),
        (
            HEAD.replace("\n", ",prefix,prefix_tokens\n") + "0,9,1,a,2\n0,9,1,a,3\n",
            ["row 3", "prefix_tokens 3", "has 2 tokens in a row above"],
        ),
        ("\x00" + HEAD, ["arrivals.csv"]),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_row(tmp_path: Path, text: str, said: list[str]) -> None:
    with pytest.raises(BadInput) as refusal:
        read_arrivals(written(tmp_path, text), 4096, "its context")
    line = str(refusal.value)
    assert line.isprintable()
    assert len(line) < 500
    assert all(part in line for part in said), line


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_file, "MAX_ROWS", 2)
    with pytest.raises(BadInput, match=r"row 4: more than 2 requests"):
        read_arrivals(written(tmp_path, HEAD + 3 * "0,1,1\n"), 4096, "its context")
    monkeypatch.setattr(arrivals_file, "LIMIT_BYTES", 20)
    with pytest.raises(BadInput, match="over 20 bytes"):
        read_arrivals(written(tmp_path, HEAD), 4096, "its context")


def test_the_first_row_beyond_the_context_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + "0,5,5\n\n1,60,50\n2,70,50\n")
    assert read_arrivals(path, 120, "--context 120").new_tokens.tolist() == [5, 50, 50]
    with pytest.raises(BadInput, match=r"row 4: 60 \+ 50 tokens are more than --context 100; give at most 100"):
        read_arrivals(path, 100, "--context 100")


BASE = make_request(EstimateRequest, model="story", mesh="24x24", schedule="baseline", prompt_len=16, new_tokens=16)
HOSTILE = "</script><script>alert(1)</script>"


def test_hostile_names_are_text() -> None:
    service = serve(make_request(ServeRequest, base=BASE, requests=50))
    inputs: dict[str, Any] = {**service.result.inputs, "model": HOSTILE}
    model = replace(service.result.model, name=HOSTILE)
    page = as_html(replace(service, result=replace(service.result, model=model, inputs=inputs))).decode()
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    assert "&lt;/script&gt;" in page
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_an_overloaded_service_has_no_panels() -> None:
    page = as_html(serve(make_request(ServeRequest, base=BASE, requests=50, load=3.0))).decode()
    assert "Overloaded" in page
    assert '"panels": []' in page
