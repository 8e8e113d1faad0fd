"""Settings and fixtures for all tests: a new cache folder, one core per process, memoized searches."""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from wse.cache.store import FOLDER_VARIABLE
from wse.compiler.placeable import Placeable
from wse.compiler.search.search import Compilation
from wse.program.digest import digest_of
from wse.program.program import Program
from wse.studies.compare.grid import combination
from wse.studies.compare.plan import rows
from wse.studies.compile import choose
from wse.studies.compile import compile as compile_study
from wse.studies.compile import room as compile_room
from wse.studies.compile.layout_changes import Version, users_that_fit
from wse.studies.estimate import study as estimate_study
from wse.studies.estimate.drafts import placement
from wse.studies.estimate.layouts import layout_versions, searches
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.serve_sim.machines import compile_service, drafts, layouts, wafers
from wse_kernels import library, precompile

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # tests of downloads start a server of their own

# Let all processes of a test run share compiled Python modules. Without them, each process compiles them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the variable: all tests of a run share one new cache
    os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="wse-cache-")
    atexit.register(shutil.rmtree, os.environ[FOLDER_VARIABLE], ignore_errors=True)

SLOWEST_FILES = ("test_claims.py", "test_notebooks.py", "test_outputs.py", "test_examples.py", "test_model_errors.py")
"""Test files that start first, so that no worker still runs one of them when the others have finished."""

settings.register_profile("plain", max_examples=25, deadline=None)  # the machine may be busy
settings.load_profile("plain")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of the slowest files to the front."""
    items.sort(key=lambda item: item.path.name not in SLOWEST_FILES)


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Return the folder of the test data. It contains a trained model, ``models/stories260k``."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def external_data() -> Path:
    """Return the folder of data that is too large for the repository; skip the test if it is missing.

    The folder is $WSE_SHARED, or ``shared`` next to the checkout. It contains a larger trained model, traffic
    traces, and the measurements and configurations from which the bundled files are made.
    """
    folder = Path(os.environ.get("WSE_SHARED") or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder} is missing (set WSE_SHARED to the folder)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def one_core() -> Iterator[None]:
    """Execute and compile kernels on one core, because other test processes use the other cores.

    ``parallel_core_s`` decides by a measurement whether a kernel runs on all cores. The measurement depends on what
    else runs on the machine. Tests of the parallel kernels set it themselves.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "parallel_core_s", lambda: inf)
        patch.setattr(precompile, "_cores", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_search() -> Iterator[None]:
    """Memoize layouts, searches, room for users, pass costs and uncertainty ranges over all tests of this process.

    Many tests request the same Program: on the command line, from Python and as JSON. It is searched for and timed
    with other constants only once.
    """

    def search_key(prepared: Placeable, *rest: object) -> Hashable:
        p = prepared
        before_pass = p.middle_before_pass if p.options.verify_tokens else None
        request = p.spec, p.wafer, p.software, p.options, tuple(p.middle_context), before_pass, p.new_tokens
        return *request, *((one.options, one.choice) if isinstance(one, Compilation) else one for one in rest)

    def uncertainty_key(prepared: PreparedEstimate, program: Program) -> Hashable:
        p = prepared
        return p.request.machine, p.wafer, p.software, p.options, tuple(p.middle_context), digest_of(program)

    def layout_key(prepared: PreparedEstimate, search: object = None, goal: object = None) -> Hashable:
        return search_key(prepared), repr(prepared.request), repr(prepared.economics), search, goal

    def room_key(version: Version[Any], context: int) -> Hashable:
        p, options, choice = version
        return p.spec, p.wafer, p.software, options, choice, context

    layout = memoized(estimate_study.choose_layout, layout_key)
    uncertainty = memoized(estimate_study.uncertainty_of, uncertainty_key)
    with pytest.MonkeyPatch.context() as patch:
        searched = memoized(choose.compile_fastest, search_key)
        for module in (choose, combination, placement, rows, searches):
            patch.setattr(module, "compile_fastest", searched)
        patch.setattr(drafts, "wafer_costs", memoized(drafts.wafer_costs, search_key))
        for module in (estimate_study, rows, combination, wafers):
            patch.setattr(module, "uncertainty_of", uncertainty)
        for module in (estimate_study, combination, compile_service, layouts, compile_study, placement):
            patch.setattr(module, "choose_layout", layout)
        room = memoized(users_that_fit, room_key)
        for module in (layout_versions, compile_room):
            patch.setattr(module, "users_that_fit", room)
        yield


def memoized(function: Callable[..., Any], key_of: Callable[..., Hashable]) -> Callable[..., Any]:
    """Return `function` with its results stored by `key_of(*arguments)`.

    Requests with dead PEs (``prepared.meshes``) are not stored, because no key describes the defects.
    """
    results = dict[Hashable, Any]()

    def call(first: Placeable | Version[Any], *rest: object, **options: object) -> Any:
        prepared = first.prepared if isinstance(first, Version) else first
        if prepared.meshes:
            return function(first, *rest, **options)
        key = key_of(first, *rest, **options)
        if key not in results:
            results[key] = function(first, *rest, **options)
        return results[key]

    return call


def pytest_collection_finish() -> None:
    """Exclude the several hundred thousand objects of the test collection from later garbage collections.

    Compiled models are many small objects without cycles, so later collections are rare too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000, 10, 10)
