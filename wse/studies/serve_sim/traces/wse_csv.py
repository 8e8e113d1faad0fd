"""The trace format of wse itself: CSV with optional tier and prefix of each request.

Columns ``arrival_s``, ``prompt_tokens`` and ``new_tokens`` are required. A request with 0
``new_tokens`` has no answer and is not served. ``tier`` is ``fast`` or ``normal``.
``prefix`` is any name. Prompts with the same prefix name share their first ``prefix_tokens`` tokens
and must be longer than the prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.files import short_repr
from wse.serving.simulation.workload import FAST, NORMAL
from wse.studies.serve_sim.traces.lines import TraceLine, column_names, read_rows
from wse.studies.serve_sim.traces.trace_format import TraceFormat, TraceRequest, seconds_of, token_count

NEEDED: Final = ("arrival_s", "prompt_tokens", "new_tokens")
OPTIONAL: Final = ("tier", "prefix", "prefix_tokens")
TIERS: Final = {"fast": FAST, "normal": NORMAL, "": NORMAL}


def _requests(lines: Iterator[TraceLine]) -> Iterator[TraceRequest]:
    """Yield the request in each row of a trace, with its tier and prefix (see `TraceFormat`).

    In contrast to other formats, unknown columns are an error.

    Raises:
        UnknownName: A column or a tier is unknown.
    """
    header = next(lines)
    for name in column_names(header):
        if name not in (*NEEDED, *OPTIONAL):
            raise UnknownName("column", name, (*NEEDED, *OPTIONAL), place=header.place)
    known_tokens: dict[str, int] = {}
    for line, values in read_rows(chain([header], lines), NEEDED):
        tier = values.get("tier", "")
        if tier not in TIERS:
            raise UnknownName("tier", tier, [name for name in TIERS if name], place=line.place)
        prompt_tokens = token_count(line, "prompt_tokens", values["prompt_tokens"])
        prefix, prefix_tokens = _prefix(line, values, prompt_tokens, known_tokens)
        yield TraceRequest(
            line=line,
            arrival_s=seconds_of(line, "arrival_s", values["arrival_s"]),
            prompt_tokens=prompt_tokens,
            new_tokens=token_count(line, "new_tokens", values["new_tokens"], minimum=0),
            tier=TIERS[tier],
            prefix=(prefix,) if prefix else (),
            block_tokens=prefix_tokens,
        )


def _prefix(
    line: TraceLine, values: Mapping[str, str], prompt_tokens: int, known_tokens: dict[str, int]
) -> tuple[str, int]:
    """Return the name and the length of a prompt's prefix, or "" and 0 without a prefix.

    Args:
        line: Line of the request, for error messages.
        values: Values of the row, keyed by column.
        prompt_tokens: Length of the prompt.
        known_tokens: Length of each prefix in earlier rows, keyed by name. A new prefix is added.

    Raises:
        BadInput: Only the name or only the length is given, the prefix is not shorter than the
            prompt, or an earlier row states a different length.
    """
    name, text = values.get("prefix", ""), values.get("prefix_tokens", "")
    if not name and not text:
        return "", 0
    if not name or not text:
        raise BadInput(
            f"{line.place}: prefix {short_repr(name)} with prefix_tokens {short_repr(text)}: give both, or neither"
        )
    tokens = token_count(line, "prefix_tokens", text)
    if tokens != known_tokens.setdefault(name, tokens):
        raise BadInput(
            f"{line.place}: prefix_tokens {tokens}: prefix {short_repr(name)} has {known_tokens[name]} tokens "
            "in a row above"
        )
    if tokens >= prompt_tokens:
        raise BadInput(f"{line.place}: prefix_tokens {tokens}: give fewer than the {prompt_tokens} of the prompt")
    return name, tokens


WSE_CSV: Final = TraceFormat(
    title="wse CSV", first_line=",".join(NEEDED), fields=(*NEEDED, *OPTIONAL), requests=_requests
)
"""The CSV format of wse, with optional columns for service tiers and shared prefixes."""
