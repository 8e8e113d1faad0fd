"""The function `wse.run`, with all options of the command ``wse run`` as arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wse.hardware.generations import DEFAULT_WAFER
from wse.reports.progress import OnProgress, ignore
from wse.studies.options.arguments import checks_arguments, read_request
from wse.studies.run.request import RunRequest

if TYPE_CHECKING:
    from wse.studies.run.result import RunResult


@checks_arguments(RunRequest)
def run(
    model: str | Path = "story",
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
    prompt: str | Sequence[str] | None = None,
    prompt_ids: Sequence[int] | Sequence[Sequence[int]] | str | None = None,
    prompts: str | Path | None = None,
    new_tokens: int | str | None = None,
    weights: str | None = None,
    chat: bool = False,
    system: str | None = None,
    temperature: float | str = 0.0,
    top_k: int | str = 0,
    top_p: float | str = 1.0,
    min_p: float | str = 0.0,
    repetition_penalty: float | str = 1.0,
    seed: int | str = 0,
    draft: str | Path | None = None,
    draft_tokens: int | str | None = None,
    draft_place: str | None = None,
    draft_mesh: str | None = None,
    verify_tokens: int | str | None = None,
    logits: bool = False,
    allow_nonfinite: bool = False,
    trace: str | Path | None = "wse-run.h5",
    trace_policy: str = "stop",
    record: str | None = None,
    record_pe: str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | str = 60.0,
    profile: bool = False,
    profile_output: str | Path = "wse-profile.json",
    engine: str = "local",
    ray_address: str | None = None,
    wavelets: bool = False,
    on_text: Callable[[str], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    on_stored: OnProgress | None = None,
    on_progress: OnProgress | None = None,
    on_tokens: OnProgress | None = None,
) -> RunResult:
    """Compile, execute, time and trace a model on an emulated wafer, as ``wse run`` does.

    Example:
        result = wse.run(prompt="One day, a little fox", new_tokens=64, trace=None)
        result.text, result.decode.tokens_per_s_per_user

    Arguments that are not listed here are those of `wse.estimate`.

    Args:
        model: A model folder, or a name of `wse models`.
        prompt: Text to continue. Several of them are answered together.
        prompt_ids (1,2,3): Token ids to continue, used as they are; needs no tokenizer. As often as
            wanted.
        prompts: Texts to continue together: one a line, or a JSON list in a .json file.
        new_tokens: Stop after this number of tokens, if no end token came before. Default: 256, or
            what fits.
        weights (random:SEED): Run the model's shape on random weights of that seed, the same on
            every mesh; files of weights are not needed.
        chat: The prompt is a user's turn, in the model's chat template.
        system: The system's turn of a chat, before the user's.
        temperature: 0 takes the likeliest token on the wafer; above, the host draws.
        top_k: Draw among the K likeliest tokens; 0: among all.
        top_p: Draw among the likeliest tokens that have probability P together.
        min_p: Draw among tokens at least P times as likely as the likeliest.
        repetition_penalty: Above 1: tokens of prompt and text so far become less likely.
        seed: Seed of what is drawn when the temperature is above 0, for each prompt anew.
        draft (MODEL|ngram): Draft tokens ahead, which one pass of the model verifies: a smaller
            model of the same vocabulary, or ngram for what followed the text's last tokens before.
        draft_tokens: Tokens that are drafted for each pass. Default: 4, or what fits.
        draft_place (same|wafer|host): Where drafts are made: beside the model on the same wafer, on
            another wafer, or on the host. Default: same; of ngram where the host draws tokens,
            host.
        draft_mesh (ROWSxCOLS): The mesh of PEs of a draft model. Default: the fastest part of as
            many as the model has.
        verify_tokens: Generate by passes over so many tokens of the user: the next one, and those
            of draft ngram. 1: a pass for each user's next token, so that several users can be
            streams on several wafers.
        logits: Also report the logits after the prompt.
        allow_nonfinite: Run weights that hold infinities or what is no number.
        trace (PATH|none): Where to write the trace.
        trace_policy (stop|continue): What a run does when its trace cannot be written any more.
        record (activations[=OP,...]): Keep what ops make in the trace; of all, or as
            layers.*.attention,head.
        record_pe: Keep the bytes of a PE's buffers in the trace, pass by pass; of several with +
            between.
        checkpoint: Keep the state of the run in FILE now and then; where FILE is there, go on from
            it.
        checkpoint_every: Time between two writes of checkpoint, such as 5s. A number is in s; a
            text has a unit.
        profile: Also time this emulation itself: by kind of step, op and kernel.
        profile_output: With profile: where to write its flame graph, for speedscope.
        engine (local|ray): What works: this machine's own processes, or a Ray cluster (pip install
            'wse[ray]').
        ray_address: The Ray cluster that this machine belongs to, as HOST:PORT or auto. Default:
            one on this machine alone, for as long as the command runs.
        wavelets: Also execute the last pass wavelet by wavelet, and trace every move.
        on_text: Called with the prompt's text and then each stretch of generated text, where there
            is one prompt.
        on_warning: Called with what the user should know though the run goes on.
        on_stored: Called with (elements stored, all, the tile of the last) while weights are
            stored.
        on_progress: Called with (done, all, the kernel that begins) while kernels compile.
        on_tokens: Called with (tokens read and generated, the most, "") where ``on_text`` is not
            called.
    """
    from wse.studies.run.study import run as study

    request = read_request(RunRequest, locals())
    return study(
        request,
        on_text=on_text or ignore,
        on_warning=on_warning or ignore,
        on_stored=on_stored or ignore,
        on_progress=on_progress or ignore,
        on_tokens=on_tokens or ignore,
    )
