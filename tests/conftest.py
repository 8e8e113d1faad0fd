"""Fixtures of the whole suite."""

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
from wse.studies.estimate import study as estimate_study
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.serve_sim.machines import wafer_drafts, wafers
from wse_kernels import library, precompile

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test asks a hub but one of its own

# Workers and processes of tests keep compiled modules, as Python does by default: each would compile them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the folder: all tests of a run share one new cache
    os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="wse-cache-")
    atexit.register(shutil.rmtree, os.environ[FOLDER_VARIABLE], ignore_errors=True)

LONGEST = ("test_claims.py", "test_notebooks.py", "test_outputs.py", "test_examples.py", "test_model_errors.py")
"""Files whose tests take longest: they begin first, so that no worker is left with one of them at the end."""

settings.register_profile("plain", max_examples=25, deadline=None)  # the machine may be busy
settings.load_profile("plain")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order tests by what they take, as far as that counts."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of tests' data, which has a trained model: ``models/stories260k``."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def beside() -> Path:
    """The folder of what is too large for the project: $WSE_SHARED, or shared/ beside the checkout.

    It has a larger trained model, and the files of measurements and configurations from which bundled ones are made.
    """
    folder = Path(os.environ.get("WSE_SHARED") or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder} is missing (set WSE_SHARED to the folder)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def one_core() -> Iterator[None]:
    """Run each step of an engine on one core, and compile on it: other cores have tests of their own.

    What `parallel_core_s` measures depends on what else runs on the machine; tests of the builds for all cores say so.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "parallel_core_s", lambda: inf)
        patch.setattr(precompile, "_cores", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_search() -> Iterator[None]:
    """Search for a Program once where tests ask for the same, and for its passes: by command, from Python, as JSON.

    The same Program is timed with other constants once.
    """

    def asked(prepared: Placeable, *rest: object) -> Hashable:
        p = prepared
        before_pass = p.middle_before_pass if p.options.verify_tokens else None
        request = p.spec, p.wafer, p.software, p.options, tuple(p.middle_context), before_pass, p.new_tokens
        return *request, *((one.options, one.choice) if isinstance(one, Compilation) else one for one in rest)

    def timed(prepared: PreparedEstimate, program: Program) -> Hashable:
        p = prepared
        return p.request.machine, p.wafer, p.software, p.options, tuple(p.middle_context), digest_of(program)

    uncertainty = once(estimate_study.uncertainty_of, timed)
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((choose, "compile_fastest"), (wafer_drafts, "wafer_costs")):
            patch.setattr(module, name, once(getattr(module, name), asked))
        for module in (estimate_study, rows, combination, wafers):
            patch.setattr(module, "uncertainty_of", uncertainty)
        yield


def once(function: Callable[..., Any], asked: Callable[..., Hashable]) -> Callable[..., Any]:
    """A function of a request that is called once for all that ask for the same; dead PEs have no key."""
    found = dict[Hashable, Any]()

    def call(prepared: Placeable, *rest: object) -> Any:
        if prepared.meshes:
            return function(prepared, *rest)
        key = asked(prepared, *rest)
        if key not in found:
            found[key] = function(prepared, *rest)
        return found[key]

    return call


def pytest_collection_finish() -> None:
    """Leave what was collected, some hundred thousand objects, out of every later search for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
