"""Drafters of a run, which propose tokens to verify: a look-up in the text, and a draft model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Protocol

import numpy as np

from wse.backends.execute.engine import Engine
from wse.backends.execute.host_tokens.prompt_lookup import prompt_lookup
from wse.backends.execute.host_tokens.sampling import Sampling, Scores, draw, probabilities
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.models.tensors.model_tensors import stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.options.drafts.draft import HOST, NGRAM, draft_place, has_draft
from wse.studies.run.prepare import PreparedRun, weights_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Tokens proposed as the continuation of a sequence, which the model verifies in one pass.

    Attributes:
        tokens: Token ids. Empty if there is nothing to propose.
        cycles: Cycles needed to make the draft and send it to the model.
        probabilities: For each token, the float64 ``[vocabulary]`` distribution from which it was
            sampled. None if the tokens were not sampled.
        overlapped_cycles: Cycles during which the draft model works while the model verifies the
            draft.
    """

    tokens: tuple[int, ...]
    cycles: float
    probabilities: tuple[Scores, ...] | None = None
    overlapped_cycles: float = 0.0


NO_DRAFT: Final = Draft(tokens=(), cycles=0.0)


class Drafter(Protocol):
    """Source of draft tokens (proposed continuations) for one sequence.

    Attributes:
        name: Name of the draft model, or ``ngram`` for a look-up.
        place: Where drafts are made: ``same`` wafer, another ``wafer`` or the ``host``.
        passes: Number of passes of the draft model so far.
    """

    name: str
    place: str
    passes: int

    def read(self, prompt: Sequence[int]) -> float:
        """Process the prompt, before the first draft, and return how many cycles this takes.

        The caller only counts cycles beyond those that the verifying model needs for the same
        prompt, because both process it at the same time.

        Args:
            prompt: Token ids.
        """

    def propose(self, text_ids: Sequence[int], tokens: int) -> Draft:
        """Return a draft: tokens that may continue a sequence. It may be empty.

        The sequence must continue the sequence of the previous call, without the draft tokens that
        have been rejected since then.

        Args:
            text_ids: Token ids of the prompt and the text generated so far.
            tokens: Number of tokens to propose.
        """


class LookUp:
    """Draft source that searches the text for an earlier occurrence of its last tokens.

    The tokens that followed this occurrence are proposed (prompt lookup decoding). No draft model
    is needed.
    """

    name = NGRAM

    def __init__(self, times: DraftTimes, context: int) -> None:
        self.place, self.passes = times.place, 0
        self._times, self._context = times, context

    def read(self, prompt: Sequence[int]) -> float:
        """Return 0 cycles: a look-up does not process the prompt before the first draft."""
        return 0.0

    def propose(self, text_ids: Sequence[int], tokens: int) -> Draft:
        """Return the tokens that followed an earlier occurrence of the last tokens of the text.

        The draft is empty if there is no earlier occurrence with enough tokens after it. If the
        look-up runs on the host, an empty draft may cost an additional round trip to the host.

        Args:
            text_ids: Token ids of the prompt and the text generated so far.
            tokens: Number of tokens to propose.
        """
        draft_ids = prompt_lookup(text_ids, tokens)
        cycles = self._times.look_up_cycles(self._context, tokens)
        return Draft(tokens=draft_ids, cycles=cycles if draft_ids else cycles + self._times.round_trip_cycles())


class DraftModel:
    """Draft source that runs a smaller model, either on dedicated PEs or on the host.

    The draft model decodes one token per pass. It selects tokens by the same rule as the verifying
    model: the most likely token, or a sample drawn on the host.

    Args:
        run: A run of only the draft model.
        program: The draft model's compiled Program.
        engine: Engine that executes the Program.
        times: Cycles needed to exchange tokens between the draft model and the verifying model, and
            the place where the draft model runs.
        vocabulary: Vocabulary size of the verifying model.
    """

    def __init__(self, run: PreparedRun, program: Program, engine: Engine, times: DraftTimes, vocabulary: int) -> None:
        self.name, self.place, self.passes = str(run.request.model), times.place, 0
        self.program, self.engine = program, engine
        self._sampling: Sampling = run.request.sampling.rule()
        self._random = np.random.default_rng([self._sampling.seed, 1])  # independent of the model's draws
        self._clock = RunTotals(Fabric(program, run.wafer, run.software, run.meshes))
        self._times, self._vocabulary = times, vocabulary
        float_bytes = ELEMENT_BYTES[program.element_type("act")]
        self._token_cycles = times.host_token_cycles(stored_bytes(run.spec, program.weight_type, float_bytes))
        self._prompt_tokens, self._cached = 0, list[int]()  # ids in the cache after the prompt
        stage = next(stage for stage in program.stages if stage.has_embedding)
        self._region = Region(rows=stage.rect.rows, cols=stage.cols)

    def read(self, prompt: Sequence[int]) -> float:
        """Run the prompt through the draft model, and return the number of cycles this takes.

        On the host, the time is dominated by reading the weights from memory. A prompt is therefore
        assumed to take as long as a single token.
        """
        for index in self.engine.prefill(prompt):
            self._clock.prefill_chunk(index, dict(self.engine.expert_pairs))
        self._prompt_tokens = len(prompt)
        return self._token_cycles if self.place == HOST else self._clock.prefill.cycles

    def propose(self, text_ids: Sequence[int], tokens: int) -> Draft:
        """Run the draft model on the new tokens of the text, then generate draft tokens one by one.

        1. Remove rejected draft tokens from the KV cache.
        2. Run the new tokens of the text. The last one yields the first draft token.
        3. Run each draft token except the last one. Each run yields the next draft token.
        4. Run the last draft token while the verifying model checks the draft. It must be in the
           cache if the whole draft is accepted.

        The cycle count of the draft includes the exchange of tokens with the verifying model,
        unless the draft model runs on the host.

        Args:
            text_ids: Token ids of the prompt and the text generated so far.
            tokens: Number of tokens to propose.
        """
        start_cycles, passes = self._clock.verify.cycles, self.passes
        text = list(text_ids)
        new_ids = text[self._prompt_tokens :]
        pairs = zip(self._cached, new_ids[:-1], strict=False)
        common_tokens = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._remove_last(len(self._cached) - common_tokens)  # 1
        draft_ids, distributions = list[int](), list[Scores]()
        for token in new_ids[common_tokens:-1]:  # 2
            self._run(token)
        token = new_ids[-1]
        while len(draft_ids) < tokens:
            likeliest_id = self._run(token)
            token = self._choose(likeliest_id, (*text, *draft_ids), distributions)
            draft_ids.append(token)  # 3
        times = self._times
        cycles = self._cycles_since(passes, start_cycles)
        passes, start_cycles = self.passes, self._clock.verify.cycles
        self._run(token)  # 4
        if self.place != HOST:
            cycles += times.exchange_cycles(2, self._region, times.region)  # accepted count and next id
            cycles += times.exchange_cycles(tokens, times.region, self._region)
        return Draft(
            tokens=tuple(draft_ids),
            cycles=cycles,
            overlapped_cycles=self._cycles_since(passes, start_cycles),
            probabilities=tuple(distributions) if distributions else None,
        )

    def _cycles_since(self, passes: int, cycles: float) -> float:
        """Return how many cycles the draft model has worked since an earlier point in time.

        On the host, every pass is assumed to take the same number of cycles.

        Args:
            passes: Number of draft-model passes at the earlier time. Used only on the host.
            cycles: Cycle count of the draft model's PEs at the earlier time. Not used on the host.
        """
        if self.place == HOST:
            return (self.passes - passes) * self._token_cycles
        return self._clock.verify.cycles - cycles

    def _run(self, token: int) -> int:
        """Run one token through the draft model and return the most likely next id."""
        (likeliest_id,) = self.engine.verify([token])
        self.engine.keep(1)
        self._clock.verify_pass(1, expert_tokens=dict(self.engine.expert_pairs))
        self._cached.append(token)
        self.passes += 1
        return likeliest_id

    def _choose(self, likeliest_id: int, text_ids: Sequence[int], distributions: list[Scores]) -> int:
        """Return the next draft token: the most likely one, or a random sample if the host samples.

        Args:
            likeliest_id: The most likely id.
            text_ids: Token ids of the text and the draft so far, for the repetition penalty.
            distributions: List to which the sampled token's distribution is appended.
        """
        if not self._sampling.on_host:
            return min(likeliest_id, self._vocabulary - 1)  # rows beyond the vocabulary are padding
        logits = np.full(self._vocabulary, -np.inf, np.float32)
        draft_logits = self.engine.verified_logits[0, : self._vocabulary]
        logits[: len(draft_logits)] = draft_logits
        distributions.append(probabilities(logits, list(dict.fromkeys(text_ids)), self._sampling))
        return draw(distributions[-1], self._random)

    def _remove_last(self, tokens: int) -> None:
        """Remove the last ``tokens`` tokens from the KV cache of the draft model."""
        if tokens:
            self.engine.caches.remove_last(0, tokens)
            self._clock.lengths[0] -= tokens
            del self._cached[-tokens:]


def make_drafter(target: PreparedRun, program: Program, draft: tuple[PreparedRun, Program] | None) -> Drafter | None:
    """Create the source of draft tokens for a run; None if it uses no speculative decoding.

    Args:
        target: The run of the verifying model.
        program: The verifying model's Program.
        draft: A run of only the draft model, and its Program. None to look up drafts in the text.

    Raises:
        BadModel: The draft model has no weights.
    """
    request = target.request
    if not has_draft(request):
        return None
    stage = next(stage for stage in program.stages if stage.has_embedding)
    times = DraftTimes(
        wafer=target.wafer,
        software=target.software,
        region=Region(rows=stage.rect.rows, cols=stage.cols),
        place=draft_place(request),
        host_draws=request.sampling.rule().on_host,
    )
    if draft is None:
        return LookUp(times, program.context)
    run, draft_program = draft
    engine = Engine(
        draft_program,
        run.spec,
        weights_of(run.request, run.loaded),
        [lambda logits: int(logits.argmax())] * (draft_program.sampling == "host"),  # the id after the prompt is unused
        allow_nonfinite=run.request.allow_nonfinite,
    )
    return DraftModel(run, draft_program, engine, times, target.spec.vocab_size)
