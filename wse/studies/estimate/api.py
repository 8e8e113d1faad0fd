"""`wse.estimate`: the study as a function of Python."""

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
    schedule: str = "fused",
    all_reduce: str | None = None,
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | str | None = None,
    set: Sequence[str] | str = (),
    defects: str | Path | None = None,
    defects_seed: int | str = 0,
    prompt_len: int | str | None = None,
    new_tokens: int | str | None = None,
    batch: int | str | None = None,
    users: int | str | None = None,
    replicas: int | str | None = 1,
    objective: str | None = None,
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
    trace: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> EstimateResult | GpuEstimateResult:
    """Estimate a model on full-size wafers, or on GPUs, from its config alone. The result of ``wse estimate``.

    Example:
        result = wse.estimate("llama-3-8b", dtype="fp8")
        result.system.wafers, result.decode.tokens_per_s_per_user

    Args:
        model: A Hugging Face model folder, a GGUF file, a config.json, or a name of `wse models`.
        wafer: A name of `wse wafers`, or a TOML file.
        mesh (ROWSxCOLS): Use a smaller mesh of the wafer's PEs. Default: the whole wafer; for `run` the smallest
            square that holds the model, or the mesh of the listed regions.
        wafers (N|auto): The number of wafers; auto: the fewest that hold the model. None is auto.
        mapping (NAME|FILE|FILE.py:NAME): A name of `wse mappings`; a TOML file that lists regions; or a strategy
            of your own as FILE.py:NAME, a file that is run as any program that you start.
        region (ROWSxCOLS): PEs of one region. Default: the mapping's choice.
        experts (auto|spread|few|own|GROUPS): Each expert over all columns of a region; over those of one of as
            many groups as are given, or of as few as leave little padding; or on columns of its own. auto:
            spread, or few where mapping auto has no room so.
        schedule (released|fused|REWRITES): Steps of a layer as the released research decode runs them, rewritten
            wherever that takes fewer cycles, or with the rewrites that are named, separated by commas.
        all_reduce: The pattern of sums over lines that all PEs get: a reduce or all-reduce as `wse pattern` names
            them, or your own as FILE.py:NAME. Default: K-trees, fitted to their words.
        software: The set of software costs: tuned, academic, ...
        dtype: float32, float16 or bfloat16 throughout; or weights of linear layers as int8 or fp8 (e4m3) with a
            scale an output, as int4 with a scale every 32 inputs, as mxfp4 (e2m1) with a power of two every 32
            inputs. FP8 and MXFP4 checkpoints keep their own scales. Default: the type of the published weights.
        activations: All but quantised weights: float32, float16, bfloat16. Default: the model's own.
        accumulate (float32|float16): Sums: float32 (default), or float16 with dtype float16.
        context: Tokens that the KV cache has room for, such as 128k (131,072). Default: prompt + new tokens.
        set (wafer.KEY=VALUE|xFACTOR): A number of the wafer or of software instead of its file's, or a factor of
            that, such as wafer.clock_hz=1.1GHz or wafer.clock_hz=x2; repeats.
        defects: Dead PEs and links: a CSV file of them, or the share of PEs that are dead, such as 1e-4.
        defects_seed: Seed of the dead PEs that a rate draws.
        prompt_len: Tokens of each user's prompt, such as 4k (4,096). Default: 1,024, or fewer where the model was
            made for fewer.
        new_tokens: Tokens generated for each user, such as 1k (1,024). Default: 1,024, or fewer where the model
            was made for fewer.
        batch: Users whose tokens go through the stages in one pass. Default: 1, or with users or objective the
            number that serves them best.
        users: Users at a time: requests in flight. Default: those of one pass.
        replicas (N|auto): Equal machines that share the users; auto: the fewest that have room for them.
        objective (latency|throughput|cost): Choose the layout with the shortest request, the most tokens/s of all
            users, or the cheapest token. Default: latency; of serve-sim throughput; of compare with users or
            targets cost.
        verify_tokens: Also a pass over so many new tokens of one user, as drafted ones are verified by.
        draft: Also the best drafts for this machine and batch, by how often they are accepted: a measured model
            of acceptance.toml or typical, shares such as 0.8,0.7,0.6 by position, or a TOML file.
        draft_model: The model that drafts. Default: a head of one layer of the model.
        draft_place (same|wafer|host): Where the draft model runs: on PEs that the model leaves free, on wafers of
            its own, which are added to those of the model, or on the host. Default: same.
        gpu: Time the model on GPUs instead of wafers: a name of `wse gpus`, or a TOML file.
        gpus (N|auto): The number of GPUs; auto: the fewest, as a power of two, that hold the model. None is auto.
        stack: The serving stack: a name of `wse gpus`, or a TOML file. Default: vllm.
        parallelism (tensor|experts|data): Cut all matrices over the GPUs (default); or have experts whole on a
            GPU each; or besides each user's attention on one GPU.
        capacity (refuse|report): Whether a model that does not fit is timed all the same.
        economics: Power and prices in a TOML file, instead of those of wse/data/economics.toml.
        price: USD per hour of one machine: wafer, or a name of `wse wafers` or `wse gpus`. Replaces the assumed
            price, its range, and that of economics.
        network: Network and service between user and machine in a TOML file, instead of wse/data/network.toml.
        sensitivity: Also what a slower hop, more SRAM, a faster link, or wafers that cut no layer would change.
        trace (PATH|none): Write a trace of it, to look inside with `wse inspect`.
        on_progress: Called with (done, all, the part that begins).
    """
    from wse.studies.estimate.gpus.prepare import check_machine
    from wse.studies.estimate.study import estimate as study

    request = read_request(EstimateRequest, locals())
    check_machine(request)
    if request.gpu is not None:
        from wse.studies.estimate.gpus.study import estimate_on_gpus

        return estimate_on_gpus(request)
    return study(request, on_progress=on_progress or ignore)
