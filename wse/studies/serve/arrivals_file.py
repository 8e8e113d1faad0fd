"""Arrivals from a CSV file: when each request comes, its lengths, and, if wanted, its tier and shared prefix.

``arrival_s,prompt_tokens,new_tokens`` are required; ``tier`` is ``fast`` or ``normal``, ``prefix`` any name, of which
all prompts have the same ``prefix_tokens``, fewer than they are long.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wse.errors import BadInput, UnknownName
from wse.files import read_file, short_repr
from wse.hardware.quantity import whole_number
from wse.serving.simulation.workload import FAST, NO_PREFIX, NORMAL, Workload

LIMIT_BYTES: Final = 256 * 2**20
MOST_ROWS: Final = 1_000_000
MOST_TOKENS: Final = 2**31
LATEST_S: Final = 1e9
NEEDED: Final = ("arrival_s", "prompt_tokens", "new_tokens")
FURTHER: Final = ("tier", "prefix", "prefix_tokens")
TIERS: Final = {"fast": FAST, "normal": NORMAL, "": NORMAL}


def read_arrivals(path: Path, context: int, whose: str) -> Workload:
    """Return the requests of a file, each of at most ``context`` tokens, which are of ``whose``.

    Raises:
        BadInput: it cannot be read, is too large, or a row has a time that is negative or before the one above, a
            length that is no whole number of at least 1, more tokens than the context, or a prefix that is no part of
            its prompt; with the row.
        UnknownName: a column or a tier that there is not.
    """
    data = read_file(path, LIMIT_BYTES, BadInput, "a CSV file of arrivals")
    try:
        rows = list(csv.reader(data.decode("utf-8-sig").splitlines()))
    except (UnicodeDecodeError, csv.Error) as fault:
        message = f"{path}: not CSV in UTF-8: {fault}; give a table with columns {', '.join(NEEDED)}"
        raise BadInput(message) from fault
    columns = _columns(path, rows[0] if rows else [])
    reader = _RowReader(path, columns, context, whose)
    for number, row in enumerate(rows[1:], start=2):
        if row:
            reader.read(number, row)
    return reader.workload()


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    names = [name.strip() for name in header]
    for name in names:
        if name not in (*NEEDED, *FURTHER):
            raise UnknownName("column", name, (*NEEDED, *FURTHER), where=f"{path}, row 1")
    missing = [name for name in NEEDED if name not in names]
    if missing or len(set(names)) < len(names):
        what = f"column {missing[0]} is missing" if missing else "a column is there twice"
        message = f"{path}, row 1: {what}; begin with a row such as {','.join(NEEDED)}"
        raise BadInput(message)
    return {name: at for at, name in enumerate(names)}


@dataclass(slots=True)
class _Rows:
    arrival_s: list[float]
    prompt_tokens: list[int]
    new_tokens: list[int]
    tier: list[int]
    prefix: list[int]
    prefix_tokens: list[int]


class _RowReader:
    def __init__(self, path: Path, columns: dict[str, int], context: int, whose: str) -> None:
        self._path, self._columns, self._context, self._whose = path, columns, context, whose
        self._rows = _Rows([], [], [], [], [], [])
        self._prefixes: dict[str, tuple[int, int]] = {}  # number and tokens

    def read(self, number: int, row: list[str]) -> None:
        """Take a row. Raises BadInput where it is none."""
        where, rows = f"{self._path}, row {number}", self._rows
        if len(row) != len(self._columns):
            message = f"{where}: {len(row)} values under {len(self._columns)} columns; give one for each"
            raise BadInput(message)
        if len(rows.tier) == MOST_ROWS:
            message = f"{where}: more than {MOST_ROWS:,} requests; give fewer"
            raise BadInput(message)
        values = {name: row[at].strip() for name, at in self._columns.items()}
        prompt, answer = (_tokens(where, name, values[name]) for name in ("prompt_tokens", "new_tokens"))
        if prompt + answer > self._context:
            message = f"{where}: {prompt} + {answer} tokens are more than {self._whose}; give at most {self._context}"
            raise BadInput(message)
        tier = values.get("tier", "")
        if tier not in TIERS:
            raise UnknownName("tier", tier, [name for name in TIERS if name], where=where)
        rows.arrival_s.append(self._arrival(where, values["arrival_s"]))
        rows.prompt_tokens.append(prompt)
        rows.new_tokens.append(answer)
        rows.tier.append(TIERS[tier])
        prefix, tokens = self._prefix(where, values, prompt)
        rows.prefix.append(prefix)
        rows.prefix_tokens.append(tokens)

    def _arrival(self, where: str, text: str) -> float:
        try:
            time = float(text)
        except ValueError:
            time = math.nan
        before = self._rows.arrival_s[-1] if self._rows.arrival_s else 0.0
        if not 0 <= time <= LATEST_S:
            message = f"{where}: arrival_s {short_repr(text)}: give seconds from 0 to {LATEST_S:.0e}"
            raise BadInput(message)
        if time < before:
            message = f"{where}: arrival_s {time:g} is before {before:g} of the row above; sort rows by arrival_s"
            raise BadInput(message)
        return time

    def _prefix(self, where: str, values: dict[str, str], prompt: int) -> tuple[int, int]:
        name, text = values.get("prefix", ""), values.get("prefix_tokens", "")
        if not name and not text:
            return NO_PREFIX, 0
        if not name or not text:
            message = f"{where}: prefix {short_repr(name)} with prefix_tokens {short_repr(text)}: give both, or neither"
            raise BadInput(message)
        tokens = _tokens(where, "prefix_tokens", text)
        number, same = self._prefixes.setdefault(name, (len(self._prefixes), tokens))
        if tokens != same:
            message = f"{where}: prefix_tokens {tokens}: prefix {short_repr(name)} has {same} tokens in a row above"
            raise BadInput(message)
        if tokens >= prompt:
            message = f"{where}: prefix_tokens {tokens}: give fewer than the {prompt} of the prompt"
            raise BadInput(message)
        return number, tokens

    def workload(self) -> Workload:
        """Return all rows. Raises BadInput where there is none."""
        rows = self._rows
        if not rows.tier:
            message = f"{self._path}: there is no request; give at least one row below {','.join(NEEDED)}"
            raise BadInput(message)
        return Workload(
            arrival_s=np.array(rows.arrival_s),
            prompt_tokens=np.array(rows.prompt_tokens, np.int64),
            new_tokens=np.array(rows.new_tokens, np.int64),
            tier=np.array(rows.tier, np.int64),
            prefix=np.array(rows.prefix, np.int64),
            prefix_tokens=np.array(rows.prefix_tokens, np.int64),
        )


def _tokens(where: str, name: str, text: str) -> int:
    tokens = whole_number(text)
    if tokens is None or not 1 <= tokens <= MOST_TOKENS:
        message = f"{where}: {name} {short_repr(text)}: give a whole number of at least 1"
        raise BadInput(message)
    return tokens
