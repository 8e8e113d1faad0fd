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

    Arguments that are not listed here have the same meaning as in `wse.estimate`.

    Args:
        model: A Hugging Face model folder, a GGUF file, a name of `wse models`, or
            ORG/NAME[@REVISION] of a repository on the Hugging Face hub.
        prompt: Text to continue. Several texts are answered together, one per user.
        prompt_ids (1,2,3): Token ids to continue, used unchanged; no tokenizer is needed. Several
            lists are answered together, one per user.
        prompts: File of prompts to continue together: one per line, or a JSON list in a .json file.
        new_tokens: Stop after this number of tokens, or earlier at an end token. Default: 256, or
            the most that fit.
        weights (random:SEED): Use random weights with this seed, the same on every mesh; no files
            of weights are needed.
        chat: Use the prompt as the user's message in the model's chat template.
        system: System message of a chat, before the user's message.
        temperature: 0 selects the most likely token on the wafer; above 0, the host draws tokens at
            random.
        top_k: Draw among the K most likely tokens; 0: among all.
        top_p: Draw among the most likely tokens that have a total probability of P.
        min_p: Draw among tokens that are at least P times as likely as the most likely one.
        repetition_penalty: Above 1: tokens that occur in the prompt or the text so far become less
            likely.
        seed: Seed of random draws at a temperature above 0; each prompt starts with it anew.
        draft (MODEL|ngram): Propose draft tokens, which one pass of the model verifies. They come
            from a smaller model with the same vocabulary, or from ngram: what followed the last
            tokens earlier in the text. Not for models with linear attention.
        draft_tokens: Draft tokens per verification pass. Default: 4, or the most that fit.
        draft_place (same|wafer|host): Where drafts are made: next to the model on the same wafer,
            on another wafer, or on the host. Default: same; for ngram with tokens drawn by the
            host, host.
        draft_mesh (ROWSxCOLS): Mesh of PEs of a draft model. Default: the fastest part of a mesh as
            large as the model's.
        verify_tokens: Generate by verification passes over this number of tokens of a user: the
            next token, and draft tokens of draft ngram. 1: a pass for each user's next token, so
            that several users can be streams on several wafers.
        logits: Also report the logits after the prompt.
        allow_nonfinite: Allow infinities and NaN in weights.
        trace (PATH|none): File for the trace.
        trace_policy (stop|continue): What to do if the trace cannot be written any more.
        record (activations[=OP,...]): Store the outputs of ops in the trace: of all ops, or of
            some, such as layers.*.attention,head.
        record_pe: Store the bytes of a PE's buffers in the trace after each pass; separate several
            PEs by +.
        checkpoint: Save the state of the run in FILE periodically; if FILE exists, resume from it.
        checkpoint_every: Time between two writes of checkpoint, such as 5s. A number is in s; a
            string has a unit.
        profile: Also measure how long the emulation itself takes, by type of step, op and kernel.
        profile_output: With profile: file for the flame graph, in the format of speedscope.
        engine (local|ray): Run in processes on this computer, or on a Ray cluster (pip install
            'wse[ray]').
        ray_address: Ray cluster that this computer belongs to, as HOST:PORT or auto. Default: a
            cluster of this computer alone, for as long as the command runs.
        wavelets: Also simulate the last pass wavelet by wavelet, and trace every move.
        on_text: Called with the text of the prompt and then with each part of generated text, if
            there is only one prompt.
        on_warning: Called with a warning. The run continues.
        on_stored: Called with (elements stored, total, name of the last tile) while weights are
            stored.
        on_progress: Called with (kernels compiled, total, name of the next) while kernels compile.
        on_tokens: Called with (tokens read and generated, maximum, "") if ``on_text`` is not
            called.
    """
    from wse.studies.run.answer import RunCallbacks
    from wse.studies.run.study import run as study

    request = read_request(RunRequest, locals())
    callbacks = RunCallbacks(
        on_text=on_text or ignore,
        on_warning=on_warning or ignore,
        on_stored=on_stored or ignore,
        on_progress=on_progress or ignore,
        on_tokens=on_tokens or ignore,
    )
    return study(request, callbacks)
