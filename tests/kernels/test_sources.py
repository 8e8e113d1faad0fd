"""Tests of the sources of kernels: imports of numba, independent files, and matching oracles."""

import ast
import inspect
from pathlib import Path

import wse_kernels
from tests.kernels.helpers import ORACLES
from wse.program.isa.instructions import CODES, kernel_named
from wse.program.isa.operands import FIRST_OPERAND, VIEWS
from wse_kernels.codegen import blocks
from wse_kernels.library import COMPUTE, STORING, TIMING, TRANSFER
from wse_kernels.operands import group as operand_group

PACKAGE = Path(wse_kernels.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
KERNEL_FILES = sorted(p for name in ("communication", "compute", "timing") for p in (PACKAGE / name).rglob("[!_]*.py"))


def module_name(path: Path) -> str:
    """Return the dotted name of a module of the package."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


MODULES = set(map(module_name, FILES))


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


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


FUNCTIONS = {name: node for path in KERNEL_FILES for name, node in functions(path).items()}
KERNELS = {name: node for name, node in FUNCTIONS.items() if not name.startswith("_")}


def test_numba_is_imported_in_two_files() -> None:
    users = [p.name for p in FILES if any(name.split(".")[0] in ("numba", "llvmlite") for name in imported(p))]
    assert users == ["compiler.py", "jit.py"]


def test_kernel_files_import_no_other_kernel_file() -> None:
    """A kernel can be read on its own, together with the shared helper files."""
    for path in KERNEL_FILES:
        assert imported(path).isdisjoint(map(module_name, KERNEL_FILES)), path
        assert not any(name.startswith(("wse.", ".")) for name in imported(path)), path


def test_oracles_are_numpy_only() -> None:
    """Oracles import numpy, groups of operands, and the files that several oracles share."""
    standard = {"__future__", "collections.abc", "dataclasses", "inspect", "math", "typing"}
    groups = {module_name(file) for file in (PACKAGE / "operands").glob("[!_]*.py")}
    oracles = {file.name for file in KERNEL_FILES} | {"__init__.py"}
    shared = {module_name(file) for file in (PACKAGE / "oracle").rglob("*.py") if file.name not in oracles}
    for path in (PACKAGE / "oracle").rglob("*.py"):
        assert imported(path) <= standard | {"numpy", "numpy.typing"} | groups | shared, path


def test_every_function_of_a_kernel_file_is_a_kernel_of_the_library() -> None:
    assert set(KERNELS) == set(COMPUTE) | set(TRANSFER) | set(TIMING) | set(STORING)


def test_kernels_have_the_operands_and_views_of_their_records_and_an_oracle() -> None:
    for name, kernel in COMPUTE.items():
        record, taken = kernel_named(name), inspect.signature(kernel).parameters
        assert tuple(f for p in operand_group.parameters_of(kernel) for f in p.fields) == tuple(record.views), name
        assert {view for view in VIEWS if view in taken} == set(record.views.values()) - {""}, name
        assert ("ctl" in taken) == record.counters, name
        assert [*inspect.signature(ORACLES[name]).parameters][:1] == ["pe"], name
        assert ("ctl" in inspect.signature(ORACLES[name]).parameters) == record.counters, name
        assert [*operand_group.parameters_of(ORACLES[name])] == [*operand_group.parameters_of(kernel)], name


def test_every_compute_kernel_has_a_record_and_every_record_a_kernel() -> None:
    assert set(COMPUTE) == set(CODES)
    assert blocks.FIRST_OPERAND == FIRST_OPERAND
