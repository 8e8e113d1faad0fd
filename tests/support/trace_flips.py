"""Program that flips bits of a trace and reads it; a separate process, because a crash is a possible outcome.

    python trace_flips.py TRACE SCRATCH SEED FLIPS

1. Open the file with each flip alone. If it is refused, ``problems`` must report the same line first.
2. Apply the flips with which the file opens, 16 at a time, and read every column. A column must equal that of the
   sound file or be refused by a TraceError of one line. In an unfinished trace, a column may be shorter.

Prints the numbers of outcomes as JSON.
"""

import json
import random
import resource
import sys
from pathlib import Path

import numpy as np

from wse_traces import Trace, TraceError, open_trace, problems

AT_ONCE = 16
READ_BYTES = 1 << 26  # limit of a single read
SLACK_BYTES = 1 << 28  # limit of the address space, in addition to what is used after the imports


def flip_bits(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    """Return a copy of the bytes with some bits flipped; ``flips`` are (byte offset, bit)."""
    damaged = bytearray(data)
    for at, bit in flips:
        damaged[at] ^= 1 << bit
    return bytes(damaged)


def line_of(error: TraceError) -> str:
    """Return the message of an error; check that it is one printable line."""
    assert str(error).isprintable(), repr(str(error))
    return str(error)


def refusal_of(path: Path) -> str:
    """Return the message of the error with which a trace does not open; empty if it opens."""
    try:
        open_trace(path, limit_bytes=READ_BYTES).close()
    except TraceError as error:
        return line_of(error)
    return ""


def columns_of(trace: Trace) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return all columns that can be read, by path, and the error messages of the others."""
    found, messages = {}, []
    for path in trace:
        try:
            found[path] = trace.column(path)
        except TraceError as error:
            messages.append(line_of(error))
    return found, messages


def count_outcomes(path: Path, scratch: Path, seed: int, count: int) -> dict[str, int]:
    """Flip ``count`` random bits; return the numbers of refused and opened files and of read and refused columns."""
    draw, data = random.Random(seed), path.read_bytes()
    with open_trace(path) as trace:
        expected, refused = columns_of(trace)
        assert not refused, refused
        complete = trace.complete
    outcomes = dict.fromkeys(("not_opened", "opened", "columns_read", "columns_refused"), 0)
    opened: list[tuple[int, int]] = []
    for flip in [(draw.randrange(len(data)), draw.randrange(8)) for _ in range(count)]:
        scratch.write_bytes(flip_bits(data, [flip]))
        refusal = refusal_of(scratch)
        if refusal:
            outcomes["not_opened"] += 1
            assert problems(scratch)[0] == refusal
        else:
            outcomes["opened"] += 1
            opened.append(flip)
    for first in range(0, len(opened), AT_ONCE):
        scratch.write_bytes(flip_bits(data, opened[first : first + AT_ONCE]))
        with open_trace(scratch, limit_bytes=READ_BYTES) as trace:
            found, messages = columns_of(trace)
        for name, values in found.items():
            assert complete is False or len(values) == len(expected[name]), name
            assert values.tobytes() == expected[name][: len(values)].tobytes(), name
        if first % (4 * AT_ONCE) == 0 and messages:
            assert problems(scratch), messages
        outcomes["columns_read"] += len(found)
        outcomes["columns_refused"] += len(messages)
    return outcomes


if __name__ == "__main__":
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + SLACK_BYTES,) * 2)
    trace, scratch, seed, count = sys.argv[1:]
    sys.stdout.write(json.dumps(count_outcomes(Path(trace), Path(scratch), int(seed), int(count))))
