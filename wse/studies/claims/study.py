"""The study of ``wse claims``: the list of claims, how they are decided, and the written files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from wse.errors import BadInput
from wse.reports.output_file import output_path, picture_path, write_output
from wse.reports.progress import OnProgress, ignore
from wse.studies.claims.laboratory import Laboratory
from wse.studies.claims.page import image_of, write_page
from wse.studies.claims.result import Claim, ClaimsResult, Decided, claim_result
from wse.studies.claims.topics import chains, gpus, links, memory, queues, residency

ARTICLE: Final = "seangoedecke.com/fast-llm-inference, February 2026"
BATCHING: Final = "the same author on batching and DeepSeek"
THREADS: Final = "Hacker News 47022329, 44149238, 44141728, 42178761"
ANALYST: Final = "an analyst's report"

_OWN_LINK: Final = "wse compare llama-3-8b --wafers 1,2,4,8"

CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        number=1,
        text="44 GB of SRAM store about 20 billion parameters with 16 bits each, or 40 billion with 8 bits, so a fast "
        "model has to be small.",
        source=ARTICLE,
        command="wse estimate llama-3.1-70b",
        decide=residency.size_of_one_wafer,
        is_drawn=False,
    ),
    Claim(
        number=2,
        text="A longer chain of wafers lowers a single user's tokens/s proportionally.",
        source=THREADS,
        command=_OWN_LINK,
        decide=chains.longer_pipeline,
    ),
    Claim(
        number=3,
        text="Chaining wafers costs latency, but not throughput.",
        source=THREADS,
        command="wse compare llama-3-8b --wafers 1,2,4,8 --mapping region --detail",
        decide=chains.latency_not_throughput,
    ),
    Claim(
        number=4,
        text="Sharding a model over wafers loses its speed, because links between wafers are far slower than SRAM.",
        source=THREADS,
        command="wse compare llama-3-8b --question pipeline-or-tensor",
        decide=links.sharding,
        is_drawn=False,
    ),
    Claim(
        number=5,
        text="Only the residual stream crosses between wafers: 7,168 values per token of DeepSeek-V3.",
        source=THREADS,
        command="wse estimate deepseek-v3 --dtype fp8",
        decide=links.residual_stream,
        is_drawn=False,
    ),
    Claim(
        number=6,
        text="Four lanes of PCIe 4.0 between wafers would be enough.",
        source=THREADS,
        command="wse compare llama-3.1-70b --wafers 4 --link-bandwidth 8,32,150 --link-latency 500ns,5us,20us",
        decide=links.slow_link,
    ),
    Claim(
        number=7,
        text="Chips of 230 MB serve models of a trillion parameters, so there is no limit to size.",
        source=THREADS,
        command="wse claims 7",
        decide=memory.many_small_chips,
        is_drawn=False,
    ),
    Claim(
        number=8,
        text="A fast mode on GPUs is a smaller batch, whose users pay for the empty batch slots.",
        source=ARTICLE,
        command="wse estimate llama-3.1-70b --gpu h200 --gpus 8 --stack trtllm --dtype fp8",
        decide=gpus.small_batches,
    ),
    Claim(
        number=9,
        text="The speedup of a fast mode could just as well come from speculative decoding or newer hardware.",
        source=f"{ARTICLE}; {THREADS}",
        command="wse estimate deepseek-v3 --gpu b200 --gpus 8 --stack trtllm --dtype fp8 --batch 4 --draft deepseek-r1",
        decide=gpus.drafts_or_hardware,
        is_drawn=False,
    ),
    Claim(
        number=10,
        text="Users wait as if for a bus: their request starts only with the next batch.",
        source=ARTICLE,
        command="wse claims 10",
        decide=queues.waiting_for_the_bus,
    ),
    Claim(
        number=11,
        text="Large mixtures of experts have to run in large batches.",
        source=BATCHING,
        command="wse estimate deepseek-v3 --gpu b200 --gpus 8 --stack trtllm --dtype fp8",
        decide=gpus.mixtures_want_users,
    ),
    Claim(
        number=12,
        text="Many pipeline stages are idle unless many requests fill them.",
        source=BATCHING,
        command="wse estimate llama-3.1-70b --detail",
        decide=chains.bubbles,
    ),
    Claim(
        number=13,
        text="The published tokens/s of wafers are for a single query; the total for all users may be low.",
        source=THREADS,
        command="wse estimate llama-3.1-70b --wafers 8 --objective throughput",
        decide=gpus.aggregate,
    ),
    Claim(
        number=14,
        text="A dense model of 400 billion parameters needs tens of wafers, half a megawatt and tens of millions of "
        "dollars.",
        source=THREADS,
        command="wse estimate llama-3.1-405b",
        decide=residency.dense_400b,
        is_drawn=False,
    ),
    Claim(
        number=15,
        text="Wafers that read their weights from DRAM cannot be this fast.",
        source=THREADS,
        command="wse compare llama-3.1-70b --question sram-or-streaming",
        decide=memory.weights_from_outside,
    ),
    Claim(
        number=16,
        text="Wafers are fast only with short contexts.",
        source=ANALYST,
        command="wse estimate llama-3.1-70b --context 131072 --prompt-len 130048",
        decide=residency.short_context,
    ),
    Claim(
        number=17,
        text="The fast model is a smaller or a distilled one, because it has to fit.",
        source=ARTICLE,
        command="wse estimate llama-3.1-70b --dtype int4",
        decide=residency.smaller_because_it_must,
        is_drawn=False,
    ),
)


def decide(numbers: Sequence[int] = (), on_progress: OnProgress = ignore) -> Decided:
    """Decide which of the collected claims about fast inference are true.

    Args:
        numbers: Numbers of the claims; all claims if empty.
        on_progress: Called with (number of finished claims, total number of claims, current work).

    Raises:
        BadInput: One of the numbers does not belong to any claim.
        DoesNotFit: A model does not fit on the requested wafers. This does not happen with the
            bundled models.
    """
    check_numbers(numbers)
    claims = [claim for claim in CLAIMS if not numbers or claim.number in numbers]
    results, curves = [], {}
    lab = Laboratory()
    for i, claim in enumerate(claims):
        lab.on_work = partial(on_progress, i, len(claims))
        lab.uncertain_names.clear()
        finding = claim.decide(lab)
        results.append(claim_result(claim, finding, lab.uncertain_names))
        if finding.curves is not None:
            curves[claim.number] = finding.curves
    on_progress(len(claims), len(claims), "")
    return Decided(result=ClaimsResult(claims=tuple(results)), curves=curves)


def check_drawn(numbers: Sequence[int]) -> None:
    """Check that exactly one claim is requested and that it has a plot, so ``--png`` can draw it.

    Raises:
        BadInput: There is not exactly one number, the claim does not exist, or it has no plot.
    """
    check_numbers(numbers)
    if len(numbers) != 1:
        raise BadInput("--png draws the plot of one claim: give its number, or --page for the plots of all")
    if not CLAIMS[numbers[0] - 1].is_drawn:
        message = f"--png: claim {numbers[0]} is decided by single numbers, there is nothing to draw; leave out --png"
        raise BadInput(message)


def check_numbers(numbers: Sequence[int]) -> None:
    """Check that every number refers to an existing claim.

    Raises:
        BadInput: A number is below 1 or above the number of claims.
    """
    for number in numbers:
        if not 1 <= number <= len(CLAIMS):
            raise BadInput(f"claim {number}: give the number of a claim, 1 to {len(CLAIMS)}")


def decide_to_files(
    numbers: Sequence[int], on_progress: OnProgress, *, page: str | Path | None, png: str | Path | None
) -> ClaimsResult:
    """Decide which claims about fast inference are true, and write the requested files.

    Args:
        numbers: Numbers of the claims; all claims if empty.
        on_progress: Called with (number of finished claims, total number of claims, current work).
        page: Where to write a Markdown page with all verdicts and plots; None for no page.
        png: Where to write the plot, if a single claim is requested; None for no plot.

    Raises:
        BadInput: A claim does not exist, a file cannot be written, or a plot is requested for
            several claims or for a claim without one.
    """
    page_path = None if page is None else output_path("--page", str(page), suffix=".md", kind="a Markdown file")
    png_path = None if png is None else picture_path("--png", str(png))
    if png_path is not None:
        check_drawn(numbers)
    findings = decide(numbers, on_progress)
    if page_path is not None:
        write_page(findings, page_path)
    if png_path is not None:
        write_output("--png", png_path, image_of(findings.curves[numbers[0]], f"Claim {numbers[0]}"))
    return findings.result
