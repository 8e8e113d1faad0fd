"""Flip bytes of a trace and read it: a process of its own, since what is tested is whether it survives.

    python trace_flips.py TRACE SCRATCH SEED FLIPS

Each flip is tried alone on opening the file. Those that it survives are then made sixteen at a time, and every column
is read, none of which depends on another. What is read equals what was in the sound file (in a file whose run goes on,
as far as it says that it goes), or is a TraceError of one line that ``problems`` has too. Prints the outcomes as JSON.
"""

import json
import random
import resource
import sys
from pathlib import Path

import numpy as np

from wse_traces import Trace, TraceError, open_trace, problems

AT_ONCE = 16
READ_BYTES = 1 << 26  # that one read may take
SLACK_BYTES = 1 << 28  # that the process may take beyond what it has when all is imported


def flipped(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    """The bytes with some bits of them changed."""
    spoiled = bytearray(data)
    for at, bit in flips:
        spoiled[at] ^= 1 << bit
    return bytes(spoiled)


def line_of(error: TraceError) -> str:
    """The message, which is one line that a terminal can print."""
    assert str(error).isprintable(), repr(str(error))
    return str(error)


def refusal_of(path: Path) -> str:
    """Why a file does not open, empty if it does."""
    try:
        open_trace(path, limit_bytes=READ_BYTES).close()
    except TraceError as error:
        return line_of(error)
    return ""


def columns_of(trace: Trace) -> tuple[dict[str, np.ndarray], list[str]]:
    """All columns that can be read, and the messages of the others."""
    found, messages = {}, []
    for path in trace:
        try:
            found[path] = trace.column(path)
        except TraceError as error:
            messages.append(line_of(error))
    return found, messages


def tried(path: Path, scratch: Path, seed: int, count: int) -> dict[str, int]:
    """The outcomes of so many flips: what did not open, what opened, and the columns read and refused then."""
    draw, data = random.Random(seed), path.read_bytes()
    with open_trace(path) as trace:
        want, refused = columns_of(trace)
        assert not refused, refused
        complete = trace.complete
    outcomes = dict.fromkeys(("not_opened", "opened", "columns_read", "columns_refused"), 0)
    lasting: list[tuple[int, int]] = []
    for flip in [(draw.randrange(len(data)), draw.randrange(8)) for _ in range(count)]:
        scratch.write_bytes(flipped(data, [flip]))
        refusal = refusal_of(scratch)
        if refusal:
            outcomes["not_opened"] += 1
            assert problems(scratch)[0] == refusal
        else:
            outcomes["opened"] += 1
            lasting.append(flip)
    for first in range(0, len(lasting), AT_ONCE):
        scratch.write_bytes(flipped(data, lasting[first : first + AT_ONCE]))
        with open_trace(scratch, limit_bytes=READ_BYTES) as trace:
            found, messages = columns_of(trace)
        for name, values in found.items():
            assert complete is False or len(values) == len(want[name]), name
            assert values.tobytes() == want[name][: len(values)].tobytes(), name
        if first % (4 * AT_ONCE) == 0 and messages:
            assert problems(scratch), messages
        outcomes["columns_read"] += len(found)
        outcomes["columns_refused"] += len(messages)
    return outcomes


if __name__ == "__main__":
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + SLACK_BYTES,) * 2)
    trace, scratch, seed, count = sys.argv[1:]
    sys.stdout.write(json.dumps(tried(Path(trace), Path(scratch), int(seed), int(count))))
