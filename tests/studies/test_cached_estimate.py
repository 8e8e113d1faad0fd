"""Tests that estimates, comparisons and layout searches read from the cache on disk equal computed ones."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tiers import slow_but

import wse
from tests.models.helpers import write_config
from wse.cache.store import FOLDER_VARIABLE, cache_folder, stored_files
from wse.errors import BadInput
from wse.program.digest import digest_of
from wse.reports.result import as_json
from wse.reports.terminal_table import print_result
from wse.studies.compare import study as compare_study
from wse.studies.compile.choose import compile_fastest
from wse.studies.compile.stored_search import search_key, store_search, stored_search
from wse.studies.estimate import study
from wse.studies.estimate.cached import request_key
from wse.studies.estimate.layouts import layout_versions
from wse.studies.estimate.layouts.searches import FASTEST, MANY_USERS
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options
from wse.studies.what_if import study as what_if_study
from wse.studies.what_if.result import WhatIfResult

SMALL = {"mesh": "24x24", "mapping": "region", "prompt_len": 16, "new_tokens": 8}
REQUESTS: dict[str, dict[str, Any]] = {
    "one user": {"schedule": "baseline"},
    "users and prices": {
        "users": 4,
        "objective": "cost",
        "uncertainty": True,
        "schedule": "baseline",
        "price": {"wafer": 10.0},
        "workload": "chat",
        "context": "1k",
        "prompt_len": 64,
    },
    "two wafers": {"wafers": 2, "mapping": "pipeline", "batch": 2, "link": "sdk-host", "schedule": "baseline"},
    "passes and drafts": {"verify_tokens": 3, "draft": "typical", "schedule": "baseline"},
    "sensitivity": {"sensitivity": True, "schedule": "baseline"},
    "defects": {"defects": "0.01", "schedule": "baseline", "dtype": "int8", "set": ("wafer.clock_hz=x2",)},
    "overflow": {"mesh": "8x8", "capacity": "report", "replicas": 1, "context": 512},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the cache folder to a path that does not exist yet, and return it."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", slow_but(REQUESTS, "one user"))
def test_estimate_from_the_cache_equals_the_computed_one(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = SMALL | REQUESTS[name]
    with monkeypatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, "none")
        expected = wse.estimate("story", **arguments)
    assert not folder.exists()
    assert as_json(wse.estimate("story", **arguments)) == as_json(expected)
    monkeypatch.setattr(study, "estimate", None)
    from_cache = wse.estimate("story", **arguments)
    assert from_cache == expected
    assert as_json(from_cache) == as_json(expected)
    assert _text(from_cache, capsys) == _text(expected, capsys)


def _text(result: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the text of a result as the command prints it with ``--detail``."""
    print_result(result, sys.stdout, detail=True)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "breadth"),
    [
        pytest.param("two wafers", FASTEST, id="fastest"),
        pytest.param("passes and drafts", MANY_USERS, id="many users", marks=pytest.mark.slow),
    ],
)
def test_search_from_the_cache_has_the_same_programs(name: str, breadth: Any, folder: Path) -> None:
    prepared = prepare_estimate(make_request(EstimateRequest, model="story", **(SMALL | REQUESTS[name])))
    compilation = compile_fastest(prepared, breadth)
    key = search_key(prepared, breadth)
    assert key is not None
    store_search(key, compilation)
    stored = stored_search(key, prepared)
    assert stored is not None
    assert digest_of(stored.program) == digest_of(compilation.program)
    assert list(map(digest_of, stored.candidates)) == list(map(digest_of, compilation.candidates))
    for field in ("options", "choice", "trials", "compiled_trials", "rewrites", "verify_rewrites"):
        assert getattr(stored, field) == getattr(compilation, field)
    (folder / f"{key}.entry").write_bytes(b"foreign")
    assert stored_search(key, prepared) is None


@pytest.mark.slow
def test_what_if_from_the_cache_equals_the_computed_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def result() -> WhatIfResult:
        return wse.what_if("story", **SMALL, changes="clock=x2,hop=x0.5,sram=x0.01", schedule="baseline", jobs=1)

    with monkeypatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, "none")
        expected = result()
    result()
    monkeypatch.setattr(what_if_study, "estimate_change", None)
    from_cache = result()
    assert as_json(from_cache) == as_json(expected)
    assert _text(from_cache, capsys) == _text(expected, capsys)


COMPARISONS: dict[str, dict[str, Any]] = {
    "wafers": {"wafers": [1], "question": "one-wafer-or-many"},
    "wafers and GPUs": {"wafers": [1], "gpu": ["h100"], "gpus": 1},
    "ranking": {"wafers": [1], "gpu": ["h100"], "gpus": 1, "users": 4, "tpot": 1e-3, "objective": "cost"},
}


@pytest.mark.parametrize("name", slow_but(COMPARISONS, "ranking"))
def test_comparison_from_the_cache_equals_the_computed_one(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = SMALL | COMPARISONS[name] | {"mapping": ["region"], "schedule": "baseline", "jobs": 1}
    expected = wse.compare("story", **arguments)
    monkeypatch.setattr(compare_study, "_compare", None)
    from_cache = wse.compare("story", **arguments)
    assert type(from_cache) is type(expected)
    assert as_json(from_cache) == as_json(expected)
    compare_study.print_machines(from_cache, sys.stdout, detail=True)
    text = capsys.readouterr().out
    compare_study.print_machines(expected, sys.stdout, detail=True)
    assert text == capsys.readouterr().out


@pytest.mark.slow
def test_ranking_from_the_cache_compiles_only_the_chosen_layouts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = make_request(EstimateRequest, model="story", **SMALL, users=4, objective="cost", schedule="baseline")
    recompiled, calls = layout_versions.recompiled, []
    monkeypatch.setattr(layout_versions, "recompiled", lambda *version: calls.append(version) or recompiled(*version))
    first = study.estimate(request)
    compiled = len(calls)
    repeated = study.estimate(request)
    cheaper = study.estimate(replace_options(request, price={"wafer": 1.0}))
    assert compiled > 2
    assert len(calls) - compiled <= 2
    assert as_json(repeated) == as_json(first)
    assert cheaper.search == first.search


def test_key_depends_on_files_and_user_code_has_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, mapping = tmp_path / "model", tmp_path / "mine.toml"
    model.mkdir()
    config, weights = model / "config.json", model / "model.safetensors"
    for path in (config, weights, mapping):
        path.write_text("1")

    def key(**arguments: Any) -> str | None:
        return request_key("estimate", make_request(EstimateRequest, **{"model": "model", **arguments}))

    keys = [key(), key(mapping="mine.toml"), key(new_tokens=5)]
    for path in (config, weights, mapping):
        path.write_text("2")
        keys.append(key(mapping="mine.toml"))
    assert None not in keys
    assert len({*keys}) == len(keys)
    assert key(mapping="mine.toml") == keys[-1]
    assert key(mapping="mine.py:mine") is None
    assert request_key("compare", EstimateRequest(), ("128/64",)) is not None  # a label is no path
    assert key(model="organisation/repository") is None
    monkeypatch.setenv(FOLDER_VARIABLE, "none")
    assert key() is None


def test_errors_are_not_cached_and_traces_are_always_written(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        wse.estimate("story", **(SMALL | {"prompt_len": 2000}))
    arguments = SMALL | REQUESTS["one user"]
    for name in ("a.h5", "b.h5"):
        wse.estimate("story", trace=tmp_path / name, **arguments)
        assert (tmp_path / name).is_file()
    assert cache_folder() == folder
    assert len(stored_files(folder)) <= 2  # a choice of wafers and one of layouts, but no estimate


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_searches_with_other_expert_routings_have_other_keys(tmp_path: Path) -> None:
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2}
    model = write_config(tmp_path, "architectures", model_type="mixtral", **experts).parent
    keys = set()
    for routing in ("even", "zipf:1", "zipf:2"):
        prepared = prepare_estimate(
            make_request(EstimateRequest, model=str(model), routing=routing, schedule="baseline", **SMALL)
        )
        key = search_key(prepared, FASTEST)
        assert key is not None
        keys.add(key)
        compilation = compile_fastest(prepared, FASTEST)
        stored = stored_search(key, prepared)
        assert stored is not None
        assert stored.options == compilation.options
        assert digest_of(stored.program) == digest_of(compilation.program)
    assert len(keys) == 3
