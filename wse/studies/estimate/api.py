"""`wse.estimate`: estimates as a function of the Python API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.hardware.generations import DEFAULT_WAFER
from wse.reports.progress import OnProgress, ignore
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.arguments import checks_arguments, read_request

if TYPE_CHECKING:
    from wse.studies.estimate.gpus.result import GpuEstimateResult
    from wse.studies.estimate.result import EstimateResult


@checks_arguments(EstimateRequest)
def estimate(
    model: str | Path,
    *,
    wafer: str | Path = DEFAULT_WAFER,
    mesh: str | None = None,
    wafers: int | str | None = None,
    mapping: str | Path = "auto",
    region: str | None = None,
    experts: str = "auto",
    place_experts: str | Path | None = None,
    schedule: str = "optimized",
    all_reduce: str | None = None,
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | str | None = None,
    link: str | Path = "vendor",
    set: Sequence[str] | str = (),
    defects: str | Path | None = None,
    defects_seed: int | str = 0,
    workload: str | None = None,
    prompt_len: int | str | None = None,
    new_tokens: int | str | None = None,
    prefix_tokens: int | str | None = None,
    think_time: float | str | None = None,
    batch: int | str | None = None,
    users: int | str | None = None,
    replicas: int | str | None = 1,
    objective: str | None = None,
    routing: str = "even",
    verify_tokens: int | str | None = None,
    draft: str | None = None,
    draft_model: str | Path | None = None,
    draft_place: str | None = None,
    gpu: str | Path | None = None,
    gpus: int | str | None = None,
    stack: str | Path | None = None,
    parallelism: str | None = None,
    capacity: str = "refuse",
    economics: str | Path | Mapping[str, Any] | None = None,
    price: str | Mapping[str, float] | None = None,
    network: str | Path | None = None,
    sensitivity: bool = False,
    uncertainty: bool = False,
    most_users: bool = False,
    trace: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> EstimateResult | GpuEstimateResult:
    """Estimate speed and cost of a model on full-size wafers or on GPUs, as ``wse estimate`` does.

    Only the configuration of the model is needed, not its weights.

    Example:
        result = wse.estimate("llama-3-8b", dtype="fp8")
        result.system.wafers, result.decode.tokens_per_s_per_user

    Args:
        model: A Hugging Face model folder, a GGUF file, a config.json, a name of `wse models`, or
            ORG/NAME[@REVISION] of a repository on the Hugging Face hub.
        wafer: A name of `wse wafers`, or a TOML file.
        mesh (ROWSxCOLS): Use a smaller mesh of the wafer's PEs. Default: the whole wafer; for
            `run`, the smallest square on which the model fits, or the mesh of the listed regions.
        wafers (N|auto): Number of wafers; auto: the fewest on which the model and the KV caches of
            all users fit in some layout. None is auto.
        mapping (NAME|FILE|FILE.py:NAME): A name of `wse mappings`; a TOML file that lists regions;
            or your own strategy as FILE.py:NAME. FILE.py is executed as a program, so use only
            files that you trust.
        region (ROWSxCOLS): Size of a region in PEs. Default: chosen by the mapping.
        experts (auto|distributed|grouped|dedicated|GROUPS): Store each expert on all columns of a
            region (distributed), on columns of its own (dedicated), or on one of several groups of
            columns: GROUPS of them, or the fewest with little padding (grouped). auto: distributed,
            or grouped if mapping auto finds that this is faster or that distributed does not fit.
        place_experts: Divide experts over groups of columns so that experts that tokens often
            select together are on different groups, according to the selections in a trace of `wse
            run` or a CSV file (token,layer,experts). Default: by index.
        schedule (baseline|optimized|REWRITES): Run the steps of a layer as in the released research
            decode (baseline), with every rewrite that saves cycles (optimized), or with named
            rewrites, separated by commas.
        all_reduce: Pattern of all-reduces over lines of PEs: a reduce or all-reduce of `wse
            pattern`, or your own as FILE.py:NAME. Default: K-trees, fitted to the number of words.
        software: Software profile, which sets the costs of software: tuned, academic, ..., or a
            TOML file.
        dtype: Element type of weights: float32, float16 or bfloat16; or, for linear layers, int8 or
            fp8 (e4m3) with a scale per output, int4 with a scale per 32 inputs, or mxfp4 (e2m1)
            with a power of two per 32 inputs. FP8, MXFP4 and INT4 checkpoints keep their own
            scales. Default: the type of the published weights.
        activations: Element type of activations, KV caches and all other data except quantised
            weights: float32, float16 or bfloat16. Default: the model's own.
        accumulate (float32|float16): Element type of sums: float32 (default), or float16 with dtype
            float16.
        context: Longest sequence that must fit, in tokens, such as 128k (131,072). Default: prompt
            + new tokens; for a file of requests, the longest one. The number of users that fit is
            computed for KV caches of prompt + new tokens.
        link: Link between wafers: vendor (that of the wafer's file), sdk-host (through the host
            streams of the SDK), or a TOML file with wafer_link_bytes_per_s and
            wafer_link_latency_s.
        set (wafer.KEY=VALUE|xFACTOR): Replace a number of the wafer or software profile, or
            multiply it by a factor, such as wafer.clock_hz=1.1GHz or wafer.clock_hz=x2; repeats.
        defects: Dead PEs and links: a CSV file that lists them, or the probability that a PE is
            dead, such as 1e-4.
        defects_seed: Random seed that selects the dead PEs.
        workload (chat|summarize|rag|coding-agent|voice): Typical service, which sets the lengths of
            requests and, with users, the pause between them; for serve-sim also the spread of
            lengths and shared prefixes. Other options override it. Sources:
            wse/data/workloads.toml.
        prompt_len: Tokens of each user's prompt, such as 4k (4,096). Default: that of workload, or
            1,024, or fewer if the model supports only fewer.
        new_tokens: Tokens generated for each user, such as 1k (1,024). Default: that of workload,
            or 1,024, or fewer if the model supports only fewer.
        prefix_tokens: Tokens at the start of each prompt that are the same for all users, such as a
            system prompt. They are already in the KV cache, which stores them once, and are not
            processed again. On GPUs, only whole blocks of 16 are reused. Default: 0. For serve-sim,
            it is the mean number of shared tokens, and turns on prefix_cache; default: the share of
            workload, reused only with prefix_cache. For serve, it only turns on prefix_cache.
        think_time: With users, mean pause from the end of an answer to the user's next request.
            Default: that of workload, or 0. A number is in s; a string has a unit.
        batch: Users whose tokens go through the stages in one pass. Default: 1; with users or
            objective, the number that serves them best.
        users: Users, each of whom sends the next request after the previous answer and a pause
            (think_time). Default: the users of one pass (batch); with objective throughput or cost,
            the smallest number that reaches the highest throughput.
        replicas (N|auto): Number of identical machines that share the users; auto: the fewest that
            have room for their requests in flight in the roomiest layout.
        objective (latency|throughput|cost): Choose the layout by the latency of a request, the
            tokens/s of all users, or the cost of a token. For the latency of one user, a layout on
            which a request takes up to 0.4 % longer is preferred if the KV caches of more users fit
            in it. Default: latency; for serve-sim, throughput; for compare with users or targets,
            cost.
        routing (even|zipf:S|FILE): How tokens select experts: over all experts as evenly as
            possible (even), or at random with a popularity that falls as rank to the power of -S
            (zipf:S), or as recorded in a trace of `wse run` or a CSV file with the columns
            token,layer,experts.
        verify_tokens: Also time a verification pass over this number of new tokens of one user.
        draft: Also report the best drafts for this machine and batch, given their acceptance: the
            name of a model in acceptance.toml, typical, probabilities by position such as
            0.8,0.7,0.6, or a TOML file. On wafers, not for models with linear attention.
        draft_model: Model that drafts tokens. Default: a draft head of one layer.
        draft_place (same|wafer|host): Run the draft model on free PEs of the model's wafers (same,
            the default), on additional wafers (wafer), or on the host.
        gpu: Time the model on GPUs instead of wafers: a name of `wse gpus`, or a TOML file.
        gpus (N|auto): Number of GPUs; auto: the smallest power of two whose memory can store the
            weights and that divides the attention heads (any with parallelism data), else the
            smallest other such number. For compare, auto also tries its multiples by 2, 4, ..., up
            to the GPUs that NVLink connects. None is auto.
        stack: Serving stack: a name of `wse gpus`, or a TOML file. Default: vllm.
        parallelism (tensor|experts|data): Split all matrices over the GPUs (tensor, the default);
            or store each expert on one GPU (experts); or in addition compute each user's attention
            on one GPU (data).
        capacity (refuse|report): Refuse a model that does not fit, or time it and report what is
            missing.
        economics: TOML file with powers and prices, in the format of wse/data/economics.toml. They
            replace the bundled ones; those that the file does not state are kept.
        price: USD per hour of one wafer (`wafer`, or a name of `wse wafers`) or one GPU (a name of
            `wse gpus`). The price is exact: it has no range. It overrides economics.
        network: TOML file with times of network and service between user and machine, in the format
            of wse/data/network.toml. They replace the bundled ones; those that the file does not
            state are kept.
        sensitivity: Also report the effect of a slower hop, more SRAM, a faster link, and the code
            of research kernels.
        uncertainty: Also report how much each uncertain constant contributes to the ranges of TPOT
            and TTFT.
        most_users: Also search for the layout with the most room, and report how many users' KV
            caches fit in it.
        trace (PATH|none): Write a trace of the estimate, for `wse inspect`.
        on_progress: Called with (number of parts done, number of parts, name of the part that
            starts).
    """
    from wse.studies.estimate.cached import cached_estimate
    from wse.studies.estimate.gpus.check_machine import check_machine

    request = read_request(EstimateRequest, locals())
    check_machine(request)
    if request.gpu is not None:
        from wse.studies.estimate.gpus.study import estimate_on_gpus

        return estimate_on_gpus(request)
    return cached_estimate(request, on_progress=on_progress or ignore)
