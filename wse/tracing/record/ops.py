"""Option ``--record``: selects the ops whose outputs are recorded in the trace."""

from __future__ import annotations

import difflib
import re
from fnmatch import fnmatchcase
from typing import Final

from wse.backends.execute.observation.op_outputs import READABLE
from wse.errors import BadInput, UnknownName
from wse.program.program import Program

ACTIVATIONS: Final = "activations"


def recorded_ops(text: str, program: Program, *, traced: bool) -> tuple[int, ...]:
    """Return the indices of the ops that ``--record`` selects, in ascending order.

    Args:
        text: Value of the option: ``activations`` for all ops whose output can be read, or
            ``activations=OP,OP...``, where an op may contain ``*``, as in ``layers.*.attention``.
        program: The compiled Program.
        traced: Whether the run writes a trace.

    Raises:
        BadInput: The option is malformed, an op is unknown or its output cannot be read, or the run
            writes no trace.
    """
    recording, separator, ops = text.partition("=")
    if recording != ACTIVATIONS:
        raise UnknownName("recording", recording, (ACTIVATIONS,), place="--record")
    if not traced:
        message = f"--record {text}: tensors are kept in the trace, and none is written: give --trace PATH"
        raise BadInput(message)
    kinds = dict(zip(program.op_names, program.op_kinds, strict=True))
    readable = [name for name, kind in kinds.items() if kind in READABLE]
    names = readable
    if separator:
        names = [name for pattern in ops.split(",") for name in _matching_ops(pattern.strip(), readable, kinds)]
    return tuple(i for i, name in enumerate(kinds) if name in names)


def _matching_ops(pattern: str, readable: list[str], kinds: dict[str, str]) -> list[str]:
    """Return the ops that a name or a pattern with ``*`` selects.

    Args:
        pattern: Name or pattern.
        readable: Names of the ops whose output can be read.
        kinds: Kind of each op, keyed by op name.

    Raises:
        BadInput: The pattern selects no op whose output can be read.
    """
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
    """Return op names as text for an error message.

    ``*`` replaces the layer number, and each resulting name is listed once.
    """
    return ", ".join(dict.fromkeys(re.sub(r"^layers\.\d+\.", "layers.*.", name) for name in names))
