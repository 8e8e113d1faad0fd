"""The summary of a trace, also of a run that goes on or was stopped."""

from __future__ import annotations

from typing import Final

from wse.inspect.expert_load import load_in
from wse.inspect.query.header import header_facts, token_facts
from wse.inspect.query.links import busiest_links
from wse.inspect.query.opened import Facts
from wse.inspect.query.steps import step_facts
from wse.inspect.query.tree import tree_facts
from wse.inspect.query.wavelets import wavelet_facts
from wse.inspect.query.work import Work
from wse_traces.read import Trace
from wse_traces.schema import USES

TOP: Final = 10


def summary_facts(trace: Trace, top: int) -> Facts:
    """What was run, where the cycles went, how full the PEs are, and the ``top`` busiest links and costliest steps.

    Raises:
        TraceError: the trace is damaged.
    """
    work = Work(trace)
    facts = run_facts(trace, work.phases())
    facts["crossing"] = {"bytes": int(trace.column("crossings/bytes").sum())}
    facts["links"] = busiest_links(trace, top)
    facts |= wavelet_facts(trace, None)
    facts |= load_in(trace).facts()
    facts["tree"] = tree_facts(work)
    facts["steps"] = step_facts(work, "cycles", top)
    facts["report"] = trace.report()
    return facts


def run_facts(trace: Trace, phases: Facts) -> Facts:
    """What was run and how fast it was, and the SRAM of the fullest PE of each stage."""
    facts: Facts = {**header_facts(trace), **token_facts(trace), **phases}
    if "decode" in facts:
        cycles = facts["decode"]["cycles_per_pass"]
        users = max(1, len(facts["users"]))
        facts["decode"] |= {"tokens_per_s": users * trace.header.clock_hz / cycles if cycles else 0.0}
    facts["sram"] = {"stages": [dict(zip(USES, row, strict=True)) for row in trace.column("sram/stage_bytes").tolist()]}
    return facts
