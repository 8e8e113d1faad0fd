"""Checks of the options of ``wse compare``."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from wse.errors import BadInput
from wse.studies.compare.request import TIMES_THE_FEWEST, CompareRequest
from wse.studies.compare.targets import check_targets
from wse.studies.estimate.checks import check_replicas, check_think_time
from wse.studies.estimate.gpus.check_machine import check_machine
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.amounts import check_counts
from wse.studies.options.mapping_file import load_mapping
from wse.studies.options.option import options_of

MAX_WAFERS: Final = 1_000
MAX_ROWS: Final = 2_000
BANDWIDTHS_GB_PER_S: Final = (0.1, 10_000.0)
LATENCIES_US: Final = (0.0, 10_000.0)
SPEEDS_TOKENS_PER_S: Final = (0.1, 1e6)


def check(request: CompareRequest) -> None:
    """Check the options of a comparison before any model is loaded.

    Raises:
        BadInput: A number is out of range, a list is empty, options contradict each other, or the
            comparison has more than `MAX_ROWS` rows. Also raised if only one new token is
            requested: prefill yields this token, so there would be no decode to compare.
        UnknownName: There is no such mapping.
    """
    for name in ("wafers", "mappings", "link_gb_per_s", "link_latency_us", "gpu"):
        if getattr(request, name) == ():
            raise BadInput(
                f"{options_of(CompareRequest)[name].flag}: there is no value; give at least one, or leave it out"
            )
    if request.gpu is None:
        check_machine(EstimateRequest(gpu_serving=request.base.gpu_serving))
    for name in request.names():
        load_mapping(name)
    for count in request.wafers or ():
        check_counts(wafers=count)
        if count > MAX_WAFERS:
            raise BadInput(f"--wafers {count}: give at most {MAX_WAFERS:,}")
    check_counts(users=request.base.serving.users)
    if request.replicas is not None:
        check_replicas(request.base.serving.users, request.replicas)
    check_think_time(request.base.workload, request.base.serving.users)
    _check_plain_speed(request)
    if request.base.workload.workload_name is not None and request.targets.lengths is not None:
        option = f"--workload {request.base.workload.workload_name}"
        raise BadInput(f"{option}: --lengths already sets the lengths of requests; leave out one")
    check_targets(request.targets, request.base.workload.prompt_len, request.base.workload.new_tokens)
    _check_values("--link-bandwidth", request.link_gb_per_s, BANDWIDTHS_GB_PER_S, "GB/s")
    _check_values("--link-latency", request.link_latency_us, LATENCIES_US, "µs")
    rows = len(request.names()) * len(request.wafers or TIMES_THE_FEWEST)
    rows *= len(request.link_gb_per_s or (0,)) * len(request.link_latency_us or (0,))
    if rows > MAX_ROWS:
        raise BadInput(f"{rows:,} rows: give fewer wafers, mappings or links, for at most {MAX_ROWS:,} rows")
    if request.base.workload.new_tokens == 1:
        raise BadInput(
            "--new-tokens 1: the prompt gives the first token, and nothing is decoded; give at least 2 to compare"
        )


def check_question(question: str | None, request: CompareRequest) -> None:
    """Check the options of a comparison, and that they do not contradict the question.

    A question concerns only wafers. With a question, GPUs and the options that rank machines are
    errors. Without a question, options about inter-wafer links require more than one wafer.

    Args:
        question: Name of the question that the comparison answers, such as ``one-wafer-or-many``;
            None for a comparison without a question.
        request: Options of the comparison.

    Raises:
        BadInput: An option is invalid, or options contradict each other.
    """
    if question is not None and request.gpu is not None:
        raise BadInput(f"--question {question}: is about wafers only; leave out --question or --gpu")
    if request.is_ranked and question is not None:
        raise BadInput(
            f"--question {question}: --users, --objective, --ttft, --tpot, --lengths, --top and --pareto rank "
            "machines; leave out one or the other"
        )
    if question is None and request.links_are_given and request.wafers == (1,):
        raise BadInput(
            "--wafers 1: a single wafer uses no links between wafers; leave out --link-bandwidth and --link-latency"
        )
    check(request)


def check_pictures(kinds: Collection[str], question: str | None, request: CompareRequest) -> None:
    """Check that the requested output files are possible for this kind of comparison.

    A ranking of machines can be written only as CSV, not as a plot or page.

    Args:
        kinds: Kinds of the requested files, such as ``png``.
        question: Name of the question that the comparison answers; None for a comparison without a
            question.
        request: Options of the comparison.

    Raises:
        BadInput: A plot or a page is requested for a ranking, or other options contradict each
            other.
    """
    picture = next((kind for kind in ("png", "html") if kind in kinds), None)
    if request.is_ranked and picture is not None:
        check_question(question, request)
        raise BadInput(f"--{picture}: draws a whole comparison, not ranked rows; leave it out")


def _check_plain_speed(request: CompareRequest) -> None:
    """Check ``--plain-speed``, the tokens/s per user in the plain service tier.

    Raises:
        BadInput: The speed is out of range, or the comparison has no service tiers because it
            includes no GPUs or ranks machines.
    """
    speed, (low, high) = request.plain_speed_tokens_per_s, SPEEDS_TOKENS_PER_S
    if speed is None:
        return
    if not low <= speed <= high:
        raise BadInput(f"--plain-speed {speed:g}: give tokens/s per user from {low:g} to {high:,.0f}")
    if request.is_ranked or request.gpu is None:
        remedy = "give --tpot in its place" if request.is_ranked else "give --gpu NAME as well"
        raise BadInput(
            f"--plain-speed {speed:g}: only --gpu without users or targets has tiers; {remedy}, or leave it out"
        )


def _check_values(option: str, values: tuple[float, ...] | None, bounds: tuple[float, float], unit: str) -> None:
    """Raise BadInput if one of the values of an option is not a finite number within bounds.

    Args:
        option: Name of the option, for the message.
        values: Values of the option, in ``unit``; None if the option is not given.
        bounds: Smallest and largest allowed value.
        unit: Unit, for the message.
    """
    low, high = bounds
    for value in values or ():
        if not (math.isfinite(value) and low <= value <= high):
            raise BadInput(f"{option} {value:g}: give numbers from {low:g} to {high:g} {unit}")
