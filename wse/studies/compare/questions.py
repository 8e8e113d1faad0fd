"""What people argue about: one wafer or many, a pipeline of layers or a split of every op, weights held or streamed.

Each is a comparison with the wafers and mappings that decide it, and a verdict that follows from its rows by rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from wse.errors import DoesNotFit, UnknownName
from wse.report.as_json import Report
from wse.report.limits import many
from wse.request.compare_request import CompareRequest
from wse.request.prepare_estimate import prepare_estimate
from wse.serving.weight_streaming import Streaming
from wse.studies.compare.grid import compare, fewest_wafers
from wse.studies.compare.streaming import BATCHES, streamed_row, users_with_room, weights_of
from wse.studies.estimate.estimate import OnPiece

ONE_OR_MANY, PIPELINE_OR_TENSOR, SRAM_OR_STREAMING = "one-wafer-or-many", "pipeline-or-tensor", "sram-or-streaming"
MANY: Final = (1, 2, 4, 8)
SPLITS: Final = ("region", "pipeline", "tensor")
RESIDENT: Final = ("region",)


def answer(question: str, request: CompareRequest, on_piece: OnPiece = lambda done, total, name: None) -> Report:
    """The report of the comparison that decides a question, with ``question`` and the sentences of ``verdict``.

    Raises:
        UnknownName: there is no such question.
        Others: as of `compare`.
    """
    if question not in QUESTIONS:
        raise UnknownName("question", question, QUESTIONS, where="--question")
    report = QUESTIONS[question](request, on_piece)
    return {"question": question, **report}


def _one_or_many(request: CompareRequest, on_piece: OnPiece) -> Report:
    """A model that fits one wafer, on one against several."""
    fewest, first = fewest_wafers(replace(request, wafers=None))
    if fewest > 1:
        name = first.spec.name
        message = f"--question {ONE_OR_MANY}: {name} takes {fewest} wafers; ask of a model that fits one"
        raise DoesNotFit(message)
    report = compare(replace(request, wafers=tuple(sorted({1, *(request.wafers or MANY)}))), on_piece)
    good = [row for row in _possible(report["rows"]) if row["wafers"] == 1]
    user, total = _best(good, "tokens_per_s_per_user"), _best(good, "tokens_per_s")
    verdict = [
        _fastest(report["rows"]),
        f"One wafer: {_rate(user, 'tokens_per_s_per_user')} for a user alone, {_rate(total, 'tokens_per_s')} for "
        f"{total['users']:,} users, at {_dollars(total)}.",
    ]
    for rows in _alike(report["rows"], ("wafers", "link_bytes_per_s", "link_latency_s")):
        if rows[0]["wafers"] > 1:
            mine, all_ = _best(rows, "tokens_per_s_per_user"), _best(rows, "tokens_per_s")
            slower = f"{mine['tokens_per_s_per_user'] / user['tokens_per_s_per_user'] - 1:+.1%}".replace("%", " %")
            crossing = f"{mine['crossing_fraction']:.1%}".replace("%", " %")
            verdict.append(
                f"{_wafers(rows[0])}, {_link(rows[0])}: {_rate(mine, 'tokens_per_s_per_user')} for a user alone "
                f"({slower}; {crossing} of its time in crossings), {_rate(all_, 'tokens_per_s')} for "
                f"{all_['users']:,} users ({all_['tokens_per_s'] / total['tokens_per_s']:.2f} times), "
                f"at {_dollars(all_)}."
            )
    return {**report, "verdict": verdict}


def _fastest(rows: Sequence[Report]) -> str:
    """On how many wafers a user, all users and a dollar get the most tokens."""
    user, total, dollar = (
        _wafers(best)
        for best in (
            _best(_possible(rows), "tokens_per_s_per_user"),
            _best(_possible(rows), "tokens_per_s"),
            min(_possible(rows), key=lambda row: float(row["usd_per_million_tokens"])),
        )
    )
    return f"A user alone is fastest on {user}, all users together on {total}, a token is cheapest on {dollar}."


def _pipeline_or_tensor(request: CompareRequest, on_piece: OnPiece) -> Report:
    """Layers on consecutive wafers against every op split over all wafers, on the same wafers."""
    report = compare(replace(request, mappings=request.mappings or SPLITS), on_piece)
    verdict = []
    for rows in _alike(report["rows"], ("wafers", "link_bytes_per_s", "link_latency_s")):
        if rows[0]["wafers"] > 1 and len(rows) > 1:
            told = [
                f"{_wafers(rows[0])}, {_link(rows[0])}: for {whom} {_ranked(rows, key)}"
                for whom, key in (("a user alone", "tokens_per_s_per_user"), ("all users", "tokens_per_s"))
            ]
            verdict.append(f"{told[0]}; {told[1].partition(': ')[2]}.")
    if not verdict:
        verdict = ["There is no number of wafers above one on which two of the mappings can be compared."]
    return {**report, "verdict": verdict}


def _sram_or_streaming(request: CompareRequest, on_piece: OnPiece) -> Report:
    """Weights in SRAM on the fewest wafers against weights that come in for every pass, to one wafer and to as many."""
    wanted = replace(request, mappings=request.mappings or RESIDENT)
    if request.wafers is None:
        wanted = replace(wanted, wafers=(fewest_wafers(wanted)[0],))
    report = compare(replace(wanted, link_gb_per_s=None, link_latency_us=None, own_link=True), on_piece)
    good = _possible(report["rows"])
    held = _best(good, "tokens_per_s")
    user = _best(good, "tokens_per_s_per_user")
    prepared = prepare_estimate(replace(request.base, mapping=wanted.names()[0], wafers=held["wafers"]))
    weights = weights_of(prepared.spec, prepared.options.dtype, prepared.options.activation_type)
    pass_s = user["tpot_s"] * (1 - user["crossing_fraction"])
    rows, verdict = [], []
    for rate in _rates(request, prepared.wafer.host_bytes_per_s):
        for wafers in dict.fromkeys((1, held["wafers"])):
            streaming = Streaming(weights=weights, bytes_per_s=wafers * rate, pass_s=pass_s)
            equal = streaming.users_for(held["tokens_per_s"])
            batches = sorted({*BATCHES, *([] if equal is None else [equal])})
            mine = [streamed_row(prepared, streaming, wafers, batch) for batch in batches]
            rows += mine
            per_wafer = streaming.users_for(held["tokens_per_s"] * wafers / held["wafers"])
            room = users_with_room(prepared, wafers)
            verdict.append(_streaming_verdict(held, user, mine[0], (equal, per_wafer), room))
    return {**report, "rows": [*report["rows"], *rows], "verdict": verdict}


def _streaming_verdict(
    held: Report, user: Report, alone: Report, enough: tuple[int | None, int | None], room: int
) -> str:
    """What streaming gives a user, and in how large a batch it gives as much as SRAM, in all and a wafer."""
    equal, per_wafer = enough
    rate = f"{alone['link_bytes_per_s'] / 1e9:g} GB/s"
    factor = user["tokens_per_s_per_user"] / alone["tokens_per_s_per_user"]
    sentence = (
        f"Weights streamed to {_wafers(alone)} at {rate} give a user alone at most "
        f"{_rate(alone, 'tokens_per_s_per_user')}; held in SRAM on {_wafers(user)} they give "
        f"{_rate(user, 'tokens_per_s_per_user')}, {factor:,.3g} times as many. "
    )
    if equal is None:
        return f"{sentence}No batch makes up for it."
    sentence += f"SRAM's {_rate(held, 'tokens_per_s')} for {held['users']:,} users take a batch of {equal:,} streamed"
    if per_wafer is not None and held["wafers"] != alone["wafers"]:
        sentence += f", as many tokens/s a wafer one of {per_wafer:,}"
    if (equal if per_wafer is None else per_wafer) > room:
        return f"{sentence}; all SRAM there has room for the caches of {room:,}, so neither is reached."
    return f"{sentence}; all SRAM there has room for the caches of {room:,}."


def _wafers(row: Report) -> str:
    return many(row["wafers"], "wafer")


def _rates(request: CompareRequest, own: float) -> tuple[float, ...]:
    """Bytes a second to each wafer: those of ``--link-bandwidth``, or what the wafer has to its host."""
    return (own,) if request.link_gb_per_s is None else tuple(rate * 1e9 for rate in request.link_gb_per_s)


def _alike(rows: Sequence[Report], keys: Sequence[str]) -> Iterator[list[Report]]:
    """The rows that can be, in groups with the same values of some keys, in the order in which these come."""
    found: dict[tuple[object, ...], list[Report]] = {}
    for row in _possible(rows):
        found.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    yield from found.values()


def _possible(rows: Sequence[Report]) -> list[Report]:
    """The rows that can be."""
    return [row for row in rows if "reason" not in row]


def _best(rows: Sequence[Report], key: str) -> Report:
    return max(rows, key=lambda row: float(row[key]))


def _ranked(rows: Sequence[Report], key: str) -> str:
    """The mappings from the best on, with how many times less each gives."""
    first, *others = sorted(rows, key=lambda row: -float(row[key]))
    behind = [f"{first[key] / row[key]:.2f} times {row['mapping']}'s {row[key]:,.4g}" for row in others]
    return f"{first['mapping']} is best with {_rate(first, key)}, {', '.join(behind)}"


def _rate(row: Report, key: str) -> str:
    return f"{row[key]:,.4g} tokens/s" if row[key] < 1e4 else f"{row[key]:,.0f} tokens/s"


def _dollars(row: Report) -> str:
    return f"{row['usd_per_million_tokens']:,.2f} USD a million tokens"


def _link(row: Report) -> str:
    return f"links of {row['link_bytes_per_s'] / 1e9:g} GB/s and {row['link_latency_s'] * 1e6:g} µs"


QUESTIONS: Final[dict[str, Callable[[CompareRequest, OnPiece], Report]]] = {
    ONE_OR_MANY: _one_or_many,
    PIPELINE_OR_TENSOR: _pipeline_or_tensor,
    SRAM_OR_STREAMING: _sram_or_streaming,
}
