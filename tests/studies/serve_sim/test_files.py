"""Tests of the HTML page of ``wse serve-sim``: escaping, and the page of an overloaded service."""

from dataclasses import replace
from typing import Any

from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.serve_sim.page.page import as_html
from wse.studies.serve_sim.request import ServeRequest
from wse.studies.serve_sim.study import serve

BASE = make_request(EstimateRequest, model="llama-3-8b", gpu="h100", gpus=1, prompt_len=16, new_tokens=16)
HOSTILE = "</script><script>alert(1)</script>"


def test_hostile_names_are_escaped() -> None:
    service = serve(make_request(ServeRequest, base=BASE, requests=50))
    inputs: dict[str, Any] = {**service.result.inputs, "model": HOSTILE}
    model = replace(service.result.model, name=HOSTILE)
    page = as_html(replace(service, result=replace(service.result, model=model, inputs=inputs))).decode()
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    assert "&lt;/script&gt;" in page
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_page_of_an_overloaded_service_has_no_panels() -> None:
    page = as_html(serve(make_request(ServeRequest, base=BASE, requests=50, load=3.0))).decode()
    assert "Overloaded" in page
    assert '"panels": []' in page
