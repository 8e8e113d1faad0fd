"""The option ``--record``: the ops whose outputs a trace shall hold."""

from __future__ import annotations

import difflib
import re
from fnmatch import fnmatchcase
from typing import Final

from wse.backends.execute.op_outputs import READABLE
from wse.errors import BadInput, UnknownName
from wse.program.program import Program

ACTIVATIONS: Final = "activations"


def recorded_ops(text: str, program: Program, *, traced: bool) -> tuple[int, ...]:
    """Return the indices of the ops that ``activations`` or ``activations=OP,OP...`` selects, ascending.

    An OP may hold ``*``, as in ``layers.*.attention``. Without any, all are meant that can be read.

    Raises:
        BadInput: it is something else, an op is unknown or cannot be read, or there is no trace to write to.
    """
    what, named, ops = text.partition("=")
    if what != ACTIVATIONS:
        raise UnknownName("recording", what, (ACTIVATIONS,), where="--record")
    if not traced:
        message = f"--record {text}: tensors are kept in the trace, and none is written: give --trace PATH"
        raise BadInput(message)
    kinds = dict(zip(program.op_names, program.op_kinds, strict=True))
    readable = [name for name, kind in kinds.items() if kind in READABLE]
    chosen = readable
    if named:
        chosen = [name for pattern in ops.split(",") for name in _matching_ops(pattern.strip(), readable, kinds)]
    return tuple(i for i, name in enumerate(kinds) if name in chosen)


def _matching_ops(pattern: str, readable: list[str], kinds: dict[str, str]) -> list[str]:
    """Return the ops that a name or pattern selects."""
    matches = [name for name in readable if fnmatchcase(name, pattern)]
    if matches:
        return matches
    unread = next((name for name in kinds if fnmatchcase(name, pattern)), None)
    if unread is not None:
        reason, names = "what it makes does not lie on PEs as one tensor", _text_of(readable)
        message = f"--record {ACTIVATIONS}={pattern}: {unread} cannot be recorded, {reason}; give others: {names}"
        raise BadInput(message)
    close = difflib.get_close_matches(pattern, kinds, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    message = f"--record {ACTIVATIONS}={pattern}: unknown op {pattern!r}: {hint}known: {_text_of(readable)}"
    raise BadInput(message)


def _text_of(names: list[str]) -> str:
    """Return the distinct names with * instead of the layer."""
    return ", ".join(dict.fromkeys(re.sub(r"^layers\.\d+\.", "layers.*.", name) for name in names))
