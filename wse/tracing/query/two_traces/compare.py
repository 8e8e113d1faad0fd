"""``wse compare A.h5 B.h5``: a row of results for each trace, and the changes between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from wse.errors import BadInput, BadTrace, UnknownName
from wse.hardware.load import load_wafer
from wse.reports.number_text import plural
from wse.reports.result import Doc, Report, Result
from wse.reports.shared_tables import price_text
from wse.reports.terminal import printable
from wse.serving.cost import power_and_cost
from wse.serving.economics import Economics, Stated, load_economics
from wse.serving.prices import WAFER, Price, own_price
from wse.tracing.query.places.stages import used_fraction
from wse.tracing.query.two_traces.changes import Change, changes_by_phase, read_totals
from wse.tracing.query.two_traces.comparison_row import ComparisonRow, fraction, limits_of
from wse.tracing.query.view import trace_at


class TracesResult(Result):
    """Comparison of two runs: a row of results for each run, and the changes between them.

    The result is returned by ``compare_traces`` and printed by ``wse compare A.h5 B.h5``.
    """

    traces: Annotated[tuple[str, str], Doc("the files")]
    same_program: Annotated[bool, Doc("whether both ran the same Program")]
    rows: Annotated[tuple[ComparisonRow, ...], Doc("one for each run")]
    changes: Annotated[
        Mapping[str, Sequence[Change]],
        Doc("changes of all prompts and of a mean generated token, by kind, the largest first"),
    ]
    prices: Annotated[tuple[str, ...], Doc("wafer prices that the costs are based on, each with its range and source")]


def compare_traces(
    first: Path, second: Path, economics: Stated | None = None, price: Price | None = None
) -> TracesResult:
    """Compare the results of two runs, read from their traces.

    Args:
        first: Trace of the first run, complete or not.
        second: Trace of the second run, complete or not.
        economics: Economic assumptions. None selects the bundled assumptions.
        price: Wafer price from ``--price``. None selects the bundled price.

    Returns:
        A row of results for each run, and the changes between them.

    Raises:
        BadTrace: A file is missing, damaged or not a trace, or its run decoded no tokens.
        BadInput: The economic assumptions are invalid. Subclasses of BadInput are raised as well.
    """
    first_run, second_run = (_Run(path, economics, price) for path in (first, second))
    return TracesResult(
        traces=(str(first), str(second)),
        same_program=first_run.run.program_digest == second_run.run.program_digest,
        rows=(first_run.row(), second_run.row()),
        changes=changes_by_phase(first_run.totals, second_run.totals, {"op": "kind"}),
        prices=tuple(dict.fromkeys(text for run in (first_run, second_run) for text in run.prices())),
    )


def check_traces(names: list[str]) -> tuple[Path, Path]:
    """Return the paths of the two traces to compare.

    Raises:
        BadInput: There are not exactly two names, or one of them does not end in a trace suffix.
    """
    if len(names) != 2:
        message = f"{plural(len(names), 'name')}: give one model, or two traces"
        if len(names) == 1:
            message = f"{names[0]}: is one trace: add a second trace, or give one model"
        raise BadInput(message)
    for name, other_name in (names, names[::-1]):
        if is_trace(other_name) and not is_trace(name):
            raise BadInput(
                f"{name!r} is not a trace, and {other_name!r} is one: give one model, or two files that wse run wrote"
            )
    if not any(map(is_trace, names)):
        raise BadInput(
            f"{names[0]!r} and {names[1]!r}: give one model, or two files that wse run wrote, which end in .h5"
        )
    return Path(names[0]), Path(names[1])


def is_trace(name: str) -> bool:
    """Return whether a file name has the suffix of a trace, ``.h5`` or ``.h5.partial``."""
    return name.removesuffix(".partial").endswith(".h5")


class _Run:
    """Results of a traced run that ``wse compare A.h5 B.h5`` shows.

    The trace is read and closed when the object is created. If the run decoded no tokens, BadTrace
    is raised.
    """

    def __init__(self, path: Path, economics: Stated | None, price: Price | None) -> None:
        self.path = path
        with trace_at(path) as trace:
            self.totals, self._report = read_totals(trace), trace.report()
        self.run = self.totals.run
        if self.run.decode is None:
            raise BadTrace(f"{path}: has no pass that decoded a token; compare runs with at least 2 new tokens")
        self._decode = self.run.decode
        self._economics = _economics(self.run.wafer.name, economics, price)

    def row(self) -> ComparisonRow:
        """Return the results of the run as a row of the comparison."""
        run, decode = self.run, self._decode
        users, wafers = max(1, len(run.users)), run.system.wafers
        decode_rate, rate_with_prompts = decode.tokens_per_s or 0.0, self._tokens_per_s()
        sram_uses = run.sram.fullest_pe_bytes
        # Power and cost of wafers that are not bundled are unknown.
        money: Report = {**power_and_cost(wafers, rate_with_prompts, self._economics)} if self._economics else {}
        return ComparisonRow(
            trace=str(self.path),
            model=run.model.name,
            mapping=run.system.mapping,
            wafers=wafers,
            dtype=run.options.get("dtype"),
            tokens_per_s_per_user=decode_rate / users,
            tpot_s=decode.cycles_per_pass / run.wafer.clock_hz,
            users=users,
            tokens_per_s=rate_with_prompts,
            tokens_per_s_exact=True,
            tokens_per_s_per_user_of_all=decode_rate / users,
            mesh_hops_per_token=decode.wavelet_hops_per_pass,
            wafer_link_bytes_per_token=self.totals.crossing_bytes["decode", False],
            host_bytes_per_token=self.totals.crossing_bytes["decode", True],
            crossing_fraction=fraction(decode.cycles_by, "crossing"),
            cycles_by=decode.cycles_by,
            **self._prefill(),
            sram_fullest_pe_fraction=used_fraction(sram_uses) if sram_uses else None,
            **money,
            **(self._limits() if decode_rate else {}),
        )

    def _tokens_per_s(self) -> float:
        """Return the throughput of the run, in generated tokens of all users per second.

        The time includes prefill and, if the report contains the time to first token, the time to
        send the first token to the host.
        """
        run, reported = self.run, self._report.get("prefill")
        seconds = sum(phase.cycles for phase in run.phases.values()) / run.wafer.clock_hz
        if isinstance(reported, dict) and isinstance(reported.get("ttft_s"), float) and run.prefill is not None:
            seconds += max(0.0, reported["ttft_s"] - run.prefill.cycles / run.wafer.clock_hz)
        return run.generated_tokens / seconds if seconds else 0.0

    def prices(self) -> Iterator[str]:
        """Yield text with the price of a wafer, its range and source, if the price is known."""
        if self._economics is not None:
            price, wafer = self._economics.usd_per_hour, self.run.wafer.name
            yield printable(price_text(price.low_value_high, wafer, price.source))

    def _prefill(self) -> Report:
        """Return the prompt results as columns of a comparison.

        The columns are the prompt tokens per second, and the fraction of cycles spent between
        wafers.
        """
        prefill = self.run.prefill
        if prefill is None:
            return {}
        reported = self._report.get("prefill")
        rate = reported.get("tokens_per_s") if isinstance(reported, dict) else None
        return {
            "prefill_tokens_per_s": rate if isinstance(rate, float) else None,
            "prefill_crossing_fraction": fraction(prefill.cycles_by, "crossing"),
        }

    def _limits(self) -> Report:
        """Return what limits the speed of one user, as columns of a comparison."""
        stages = self.run.system.stages
        spans = [(stage.first_layer, stage.last_layer) for stage in stages]
        limits = limits_of(
            self._decode.cycles_by,
            longest_line=max(max(stage.rows, stage.cols) for stage in stages),
            layers=sum(last - first + 1 for first, last in spans if 0 <= first <= last),
            crossing_bytes=self.totals.crossing_bytes["decode", False],
        )
        return limits._asdict()


def _economics(wafer: str, stated_assumptions: Stated | None, price: Price | None) -> Economics | None:
    """Return the economic assumptions for a wafer type, such as its price and power.

    The power of a wafer that is not bundled with wse is unknown. The result is then None. If the
    user specified a price for such a wafer, an error is raised.

    Args:
        wafer: Name of the wafer.
        stated_assumptions: Assumptions specified by the user, or None.
        price: Price specified by the user, or None.

    Raises:
        UnknownName: A price is specified for a wafer that is not bundled, or another name is
            unknown.
    """
    try:
        return load_economics(load_wafer(wafer), stated_assumptions, own_price(price, (WAFER, wafer)))
    except UnknownName as error:
        if error.kind == "wafer" and price is None:
            return None
        raise
