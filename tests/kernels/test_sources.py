"""Rules for the sources of kernels: imports of numba, independent files, and matching oracles."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import wse_kernels
from tests.kernels.helpers import ORACLES
from wse.number_formats import CODINGS, fp8_blocks
from wse.program.isa.activation import ACTIVATIONS
from wse.program.isa.instructions import CODES, kernel_named
from wse.program.isa.operands import FIRST_OPERAND, VIEWS
from wse_kernels.codegen import blocks
from wse_kernels.communication import copies
from wse_kernels.compute import activation
from wse_kernels.compute.attention import _visible_entries
from wse_kernels.library import COMPUTE, STORING, TIMING, TRANSFER
from wse_kernels.operands import arrivals
from wse_kernels.operands import group as operand_group
from wse_kernels.oracle import activation as activation_oracle
from wse_kernels.oracle import memory, quantised_weights
from wse_kernels.oracle import random_numbers as random_oracle
from wse_kernels.oracle import storing as storing_oracle
from wse_kernels.oracle import transfers as transfer_oracle
from wse_kernels.oracle import wavelet as wavelet_oracle
from wse_kernels.products import codes
from wse_mappings.cuts import cache_balance
from wse_mappings.schedule import Arrival

PACKAGE = Path(wse_kernels.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
KERNEL_FILES = sorted(p for name in ("communication", "compute", "timing") for p in (PACKAGE / name).rglob("[!_]*.py"))


def module_name(path: Path) -> str:
    """Return the dotted name of a module of the package."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


MODULES = set(map(module_name, FILES))


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args]


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)} & MODULES | {module}
    return names


OF_MESSAGES = {"along_columns_in_place", "along_rows_in_place", "exchange_along_columns", "exchange_along_rows"}
"""Kernels that execute the messages of other kernels in another way.

They are compared with the oracles of those.
"""

FUNCTIONS = {name: node for path in KERNEL_FILES for name, node in functions(path).items()}
KERNELS = {name: node for name, node in FUNCTIONS.items() if not name.startswith("_")}


def test_numba_is_imported_in_two_files() -> None:
    users = [p.name for p in FILES if any(name.split(".")[0] in ("numba", "llvmlite") for name in imported(p))]
    assert users == ["compiler.py", "jit.py"]


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda p: p.name)
def test_a_kernel_file_imports_no_other_kernel_file(path: Path) -> None:
    """A kernel can be read on its own, together with the shared helper files."""
    assert imported(path).isdisjoint(map(module_name, KERNEL_FILES))
    assert not any(name.startswith(("wse.", ".")) for name in imported(path))


@pytest.mark.parametrize("path", sorted((PACKAGE / "oracle").rglob("*.py")), ids=lambda p: p.name)
def test_oracles_are_numpy_only(path: Path) -> None:
    """Oracles import numpy, groups of operands, and the files that several oracles share."""
    standard = {"__future__", "collections.abc", "dataclasses", "inspect", "math", "typing"}
    groups = {module_name(file) for file in (PACKAGE / "operands").glob("[!_]*.py")}
    oracles = {file.name for file in KERNEL_FILES} | {"__init__.py"}
    shared = {module_name(file) for file in (PACKAGE / "oracle").rglob("*.py") if file.name not in oracles}
    assert imported(path) <= standard | {"numpy", "numpy.typing"} | groups | shared


def test_every_function_of_a_kernel_file_is_a_kernel_of_the_library() -> None:
    assert set(KERNELS) == set(COMPUTE) | set(TRANSFER) | set(TIMING) | set(STORING)


@pytest.mark.parametrize("name", COMPUTE)
def test_a_kernel_has_the_operands_and_views_of_its_record_and_an_oracle(name: str) -> None:
    record, taken = kernel_named(name), inspect.signature(COMPUTE[name]).parameters
    assert tuple(f for p in operand_group.parameters_of(COMPUTE[name]) for f in p.fields) == tuple(record.views)
    assert {view for view in VIEWS if view in taken} == set(record.views.values()) - {""}
    assert ("ctl" in taken) == record.counters
    assert [*inspect.signature(ORACLES[name]).parameters][:1] == ["pe"]
    assert ("ctl" in inspect.signature(ORACLES[name]).parameters) == record.counters
    assert [*operand_group.parameters_of(ORACLES[name])] == [*operand_group.parameters_of(COMPUTE[name])]


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_a_function_has_at_most_ten_parameters(path: Path) -> None:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    assert {node.name: len(parameters(node)) for node in nodes if len(parameters(node)) > 10} == {}


def test_oracles_are_in_files_named_like_those_of_their_kernels() -> None:
    files = {name: Path(inspect.getfile(ORACLES[name])).name for name in COMPUTE}
    assert files == {name: Path(inspect.getfile(function)).name for name, function in COMPUTE.items()}


def test_every_compute_kernel_has_a_record_and_every_record_a_kernel() -> None:
    assert set(COMPUTE) == set(CODES)
    assert blocks.FIRST_OPERAND == memory.FIRST_OPERAND == FIRST_OPERAND


@pytest.mark.parametrize("name", sorted(set(TRANSFER) - OF_MESSAGES))
def test_transfer_oracles_take_memory_and_element_type_for_a_view(name: str) -> None:
    taken = parameters(KERNELS[name])
    views = [p for p in taken if p.endswith("view")]
    memories = [p.replace("view", "memory").removeprefix("_") for p in views]
    oracle_parameters = [*inspect.signature(getattr(transfer_oracle, name)).parameters]
    assert oracle_parameters == [*memories, "element", *(p for p in taken if p not in views)]


@pytest.mark.parametrize("name", [*TIMING, *STORING])
def test_kernels_without_views_have_an_oracle_of_the_same_operands(name: str) -> None:
    oracles = [functions(Path(str(module.__file__))) for module in (wavelet_oracle, random_oracle, storing_oracle)]
    (oracle_function,) = (found[name] for found in oracles if name in found)
    assert parameters(KERNELS[name]) == parameters(oracle_function)


def control_words() -> dict[int, str]:
    """Return the words of ``ctl`` as the docstring of the package lists them."""
    text = " ".join((wse_kernels.__doc__ or "").split())
    listed = text.partition("Words: ")[2].partition(", 8 + slot:")[0]
    return {int(word[0]): word[2:] for word in re.split(r", (?=\d )", listed)}


def test_control_words_agree_between_kernels_and_cache_balance() -> None:
    assert control_words() == {
        cache_balance.POSITION: "position of the row's first token",
        cache_balance.TOKENS: "tokens on the row",
        cache_balance.APPEND_FROM: "first token to append",
        cache_balance.APPEND_COUNT: "tokens to append",
        cache_balance.APPEND_SLOT: "slot of the first",
        cache_balance.PASSED_SLOT: "slot passed up or -1",
        cache_balance.RECEIVED_SLOT: "slot received into or -1",
        cache_balance.OLDEST: "slot of the oldest entry",
    }
    assert cache_balance.HEADER_WORDS == len(control_words()) == _visible_entries.SLOTS
    assert cache_balance.OLDEST == _visible_entries.OLDEST
    shift = f"(words {cache_balance.PASSED_SLOT} and {cache_balance.RECEIVED_SLOT})"
    assert shift in " ".join((copies.cache_shift.__doc__ or "").split())


def test_arrivals_have_one_numbering() -> None:
    assert {arrival.name: arrival.value for arrival in Arrival} == {
        arrival.name: getattr(arrivals, arrival.name) for arrival in Arrival
    }
    oracle_numbers = [transfer_oracle.MULTICAST, transfer_oracle.COPY, transfer_oracle.DROP]
    assert oracle_numbers == [Arrival.MULTICAST, Arrival.COPY, Arrival.DROP]


def test_activation_functions_have_one_numbering() -> None:
    assert activation.ACTIVATIONS == ACTIVATIONS
    numbered = ("silu", activation.SILU), ("gelu_tanh", activation.GELU_TANH), ("gelu", activation.GELU)
    assert all(ACTIVATIONS[number] == name for name, number in numbered)
    for name in ("GELU_TANH", "GELU", "CLAMPED_SILU"):
        assert ACTIVATIONS[getattr(activation_oracle, name)] == name.lower()


def test_codings_have_one_numbering() -> None:
    """The oracle and the cycle model number codings as the compiler does."""
    for coding in (*CODINGS.values(), fp8_blocks(128, 128)):
        name = coding.name.upper()
        assert coding.number == getattr(codes, name) == getattr(quantised_weights, name)
