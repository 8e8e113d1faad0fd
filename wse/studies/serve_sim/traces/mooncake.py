"""Mooncake traces (Qin et al., FAST 2025; github.com/kvcache-ai/Mooncake, FAST25-release).

Each line is a JSON object. Times are in milliseconds. The optional ``hash_ids`` has one number per block of 512
prompt tokens; equal numbers mean that the prompts are identical up to the end of the block. A block
that the prompt does not fill, and the block with the last token of a prompt, cannot be reused:
at least one token must be read to get the first token of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from wse.errors import BadInput
from wse.files import short_repr
from wse.studies.serve_sim.traces.lines import TraceLine
from wse.studies.serve_sim.traces.trace_format import TraceFormat, TraceRequest, seconds_of, token_count
from wse_mappings.rounding import ceil_div

BLOCK_TOKENS: Final = 512
ARRIVAL, PROMPT, ANSWER, HASHES = FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")
NEEDED: Final = (ARRIVAL, PROMPT, ANSWER)


FIRST_LINE: Final = '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, ...]}'


def _requests(lines: Iterator[TraceLine]) -> Iterator[TraceRequest]:
    """Yield the request in each line of a Mooncake trace (see `TraceFormat`)."""
    for line in lines:
        values = _json_object(line)
        prompt_tokens = token_count(line, PROMPT, values[PROMPT])
        yield TraceRequest(
            line=line,
            arrival_s=seconds_of(line, ARRIVAL, values[ARRIVAL], 1e-3),
            prompt_tokens=prompt_tokens,
            new_tokens=token_count(line, ANSWER, values[ANSWER], minimum=0),
            prefix=_reusable_blocks(line, values.get(HASHES), prompt_tokens),
            block_tokens=BLOCK_TOKENS,
        )


def _json_object(line: TraceLine) -> dict[str, Any]:
    """Parse a line as a JSON object with all required fields (`NEEDED`).

    Raises:
        BadInput: The line is not a JSON object, or a field is missing.
    """
    try:
        value = json.loads(line.text)
    except (ValueError, RecursionError) as fault:
        raise BadInput(f"{line.place}: not JSON: {fault}; correct the line") from fault
    if not isinstance(value, dict):
        raise BadInput(f"{line.place}: {short_repr(value)}: give an object such as {FIRST_LINE}")
    missing_names = [name for name in NEEDED if name not in value]
    if missing_names:
        raise BadInput(f"{line.place}: {missing_names[0]} is missing; give an object such as {FIRST_LINE}")
    return value


def _reusable_blocks(line: TraceLine, hashes: Any, prompt_tokens: int) -> tuple[int, ...]:
    """Return the hashes of the blocks of a prompt that other prompts can reuse.

    These are all blocks of `BLOCK_TOKENS` tokens that end before the last token of the prompt.

    Args:
        line: Line of the request, for error messages.
        hashes: Value of the field ``hash_ids``; None if the line has no such field.
        prompt_tokens: Length of the prompt.

    Raises:
        BadInput: The value is not a list with one whole number per block.
    """
    if hashes is None:
        return ()
    blocks = ceil_div(prompt_tokens, BLOCK_TOKENS)
    if not isinstance(hashes, list) or len(hashes) != blocks:
        found = f"{len(hashes):,} numbers" if isinstance(hashes, list) else short_repr(hashes)
        raise BadInput(
            f"{line.place}: {HASHES} has {found}; give {blocks:,}, "
            f"one per block of {BLOCK_TOKENS} of the {prompt_tokens:,} prompt tokens"
        )
    wrong_values = [value for value in hashes if type(value) is not int]
    if wrong_values:
        raise BadInput(f"{line.place}: {HASHES} contains {short_repr(wrong_values[0])}; give whole numbers")
    return tuple(hashes[: (prompt_tokens - 1) // BLOCK_TOKENS])


MOONCAKE: Final = TraceFormat(title="Mooncake JSONL", first_line=FIRST_LINE, fields=FIELDS, requests=_requests)
"""Format of Mooncake traces: JSON Lines with the arrival and lengths of one request per line."""
