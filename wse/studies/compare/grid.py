"""``wse compare MODEL``: a row for each number of wafers, mapping and link.

A link changes no Program, only how long its crossings take: each number of wafers and mapping is compiled once, with
the wafer's own link, and timed with every link.
"""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.search.remedies import MOST_WAFERS as MOST_TRIED
from wse.errors import BadInput, DoesNotFit
from wse.hardware.spec import WaferSpec
from wse.report.as_json import Report
from wse.report.limits import many
from wse.request.compare_request import TIMES_THE_FEWEST, CompareRequest, Link, check
from wse.request.prepare_estimate import PreparedEstimate, prepare_estimate
from wse.studies.compare.rows import economics_facts, row_of
from wse.studies.compile.choose import best
from wse.studies.estimate.estimate import OnPiece, estimate_of, inputs
from wse.studies.results.placement import model_result


def compare(request: CompareRequest, on_piece: OnPiece = lambda done, total, name: None) -> Report:
    """``inputs``, ``model``, ``wafer``, ``economics`` and ``rows``, mapping by mapping, the fewest wafers first.

    A combination that cannot be is a row with its ``reason``.

    Args:
        request: What is compared.
        on_piece: Hears (done, all, name) before each piece of the work.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: no combination can be.
    """
    check(request)
    on_piece(0, 1, request.base.model)
    names = request.names()
    fewest, first = fewest_wafers(request)
    counts = request.wafers or _counts(fewest, first.spec.layer_count)
    links = request.links(first.wafer)
    cells = [(name, wafers) for name in names for wafers in dict.fromkeys(counts)]
    pieces = sum(1 + (len(links) if wafers > 1 else 1) for _, wafers in cells)
    rows: list[Report] = []
    model: Report = {}
    done = 0
    for name, wafers in cells:
        wanted: list[Link | None] = [None] if wafers == 1 else [*links]
        told = f"{name}, {many(wafers, 'wafer')}"
        on_piece(done, pieces, f"{told}: compiling")
        asked = replace(request.base, mapping=name, wafers=wafers)
        try:
            prepared = prepare_estimate(asked)
            program = best(prepared).program
        except (DoesNotFit, BadInput) as error:
            rows.append({"mapping": name, "wafers": wafers, "reason": str(error)})
            done += 1 + len(wanted)
            continue
        model = model or model_result(prepared.spec, program).to_dict()
        for number, link in enumerate(wanted, start=1):
            on_piece(done + number, pieces, f"{told}: timing")
            report = estimate_of(with_link(prepared, link), program).to_dict()
            chosen = {} if program.mapping_name == name else {"chosen": program.mapping_name}
            rows.append({**row_of(report, link, prepared.economics, request.streams), "mapping": name, **chosen})
        done += 1 + len(wanted)
    on_piece(pieces, pieces, "")
    if not model:
        first_cell = f"{rows[0]['mapping']} on {rows[0]['wafers']}: {rows[0]['reason']}"
        message = f"none of the {len(cells)} combinations can be: {first_cell}; give other --wafers or --mapping"
        raise DoesNotFit(message)
    return {
        "inputs": _inputs(request, first, names, counts),
        "model": model,
        "wafer": {"name": first.wafer.name, "rows": first.wafer.mesh_rows, "cols": first.wafer.mesh_cols},
        "economics": economics_facts(first.economics),
        "rows": rows,
    }


def with_link(prepared: PreparedEstimate, link: Link | None) -> PreparedEstimate:
    """A request on wafers with another link between them; the same where None is given."""
    if link is None:
        return prepared
    return replace(prepared, wafer=_linked(prepared.wafer, link), whole=_linked(prepared.whole, link))


def _linked(wafer: WaferSpec, link: Link) -> WaferSpec:
    return replace(wafer, wafer_link_bytes_per_s=link.bytes_per_s, wafer_link_latency_s=link.latency_s)


def fewest_wafers(request: CompareRequest) -> tuple[int, PreparedEstimate]:
    """The fewest wafers: those given, or those that hold the model with one of the mappings; the request on them.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
    """
    wafers = None if request.wafers is None else min(request.wafers)
    found: list[PreparedEstimate] = []
    refused: list[BadInput] = []
    for name in request.names():
        try:
            found.append(prepare_estimate(replace(request.base, mapping=name, wafers=wafers)))
        except BadInput as error:  # some mappings are not for every model
            refused.append(error)
        if found and wafers is not None:
            break
    if not found:
        raise refused[0]
    first = min(found, key=lambda each: each.options.wafers)
    return first.options.wafers, first


def _counts(fewest: int, layers: int) -> tuple[int, ...]:
    """Numbers of wafers that are compared unasked."""
    most = max(fewest, min(layers, MOST_TRIED))
    return tuple(fewest * times for times in TIMES_THE_FEWEST if fewest * times <= most)


def _inputs(
    request: CompareRequest, first: PreparedEstimate, names: tuple[str, ...], counts: tuple[int, ...]
) -> Report:
    """``inputs``: what was asked for, with defaults filled in."""
    common = {key: value for key, value in inputs(first).items() if key not in ("wafers", "mapping", "capacity")}
    links = [{"bytes_per_s": link.bytes_per_s, "latency_s": link.latency_s} for link in request.links(first.wafer)]
    streams = {} if request.streams is None else {"streams": request.streams}
    return {**common, "wafers": list(counts), "mapping": list(names), "links": links, **streams}
