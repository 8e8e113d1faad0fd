"""Tests of the names in the code: no name is only a participle, adjective, pronoun, preposition or adverb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS: Final = ("wse", "kernels/wse_kernels", "mappings/wse_mappings", "traces/wse_traces")
WORDS: Final = """
above across added after again against ahead alike alone along always among apart around arrived
asked away back before begun behind below beside better between beyond both carried changed chosen
closed combined compared counted covered crossed decided down drawn during each earlier elsewhere
enough even every everywhere expected far faster fastest few fewer fewest filled finished fitted
following forced from fullest further gained generated given had has held here how impossible inside
into joined judged kept known laid largest late later least less like likeliest listed loaded
longest made many mapped meant measured mixed more most mostly moved named nearest needed none now
once one only others outside over own packed paired passed picked placed planned prepared previous
priced ran ranked received remaining routed same saved searched seen sent served shared short
shortest shown slow slowest small smallest some spent spread stated still stored summed taken that
then there these thing this those through timed together told too took touched tried turned twice
unknown unstated until unused used visible waited waiting wanted what which whose wide widest within
without worst written wrong
"""
BARE: Final = frozenset(WORDS.split())
COMMENT: Final = re.compile(r'"""(?:.|\n)*?"""|#.*')
SUSPECT: Final = re.compile(rf"(?<![\w.])_*(?:{'|'.join(BARE - {'from'})}|of_\w+)_*(?=\s*(?:[]=:,()]|in\b))")
"""A bare word that the code around it may make a name. Only files with one are parsed, which takes long."""
OPTIONS: Final = {"against", "what"}
"""Names of command-line options, which are parameters of API functions."""
OPERANDS: Final = {"chosen", "own", "turned", "down"}
"""Names of kernel operands and layer operations, which are also written to records and Programs."""
KEYS: Final = {"mostly"}
"""Keys of the JSON output."""


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of every variable, parameter, function and class, except annotated fields of classes."""
    fields = set[int]()
    for node in ast.walk(tree):  # a class before what is in it
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store) and id(node) not in fields:
                yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
            if isinstance(node, ast.ClassDef):
                fields |= {id(statement.target) for statement in node.body if isinstance(statement, ast.AnnAssign)}


def is_bare(name: str) -> bool:
    """Return whether a name is one of WORDS or begins with "of_", and is not allowed explicitly."""
    allowed_names = OPTIONS | OPERANDS | KEYS
    return (name in BARE or name.startswith("of_")) and name not in allowed_names


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_a_bare_adjective_or_the_like(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if SUSPECT.search(COMMENT.sub("", text := path.read_text(encoding="utf-8")))
        for line, name in names(ast.parse(text))
        if is_bare(name.strip("_"))
    ]
    assert found == []
