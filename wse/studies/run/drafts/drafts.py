"""Drafts of a run: tokens that are proposed ahead of the model's, looked up in the text or made by a draft model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Protocol

import numpy as np

from wse.backends.execute.engine import Engine
from wse.backends.execute.prompt_lookup import prompt_lookup
from wse.backends.execute.sampling import Sampling, Scores, draw, probabilities
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.models.tensors.model_tensors import stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.options.draft import HOST, NGRAM
from wse.studies.run.drafts.prepare import PreparedDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Tokens that may follow a text.

    Attributes:
        tokens: Their ids; none where there is nothing to propose.
        cycles: The time of making them and of their way to the model.
        beside_cycles: What the draft takes further, while the model verifies them.
        probabilities: float64 ``[vocabulary]`` for each, from which it was drawn; None where it could be no other.
    """

    tokens: tuple[int, ...]
    cycles: float
    probabilities: tuple[Scores, ...] | None = None
    beside_cycles: float = 0.0


NO_DRAFT: Final = Draft(tokens=(), cycles=0.0)


class Drafter(Protocol):
    """A maker of drafts for one text.

    Attributes:
        name: The draft as requests name it.
        place: Where drafts are made.
        passes: Passes of a draft model so far.
    """

    name: str
    place: str
    passes: int

    def read(self, prompt: Sequence[int]) -> float:
        """Take in the prompt; the cycles that it takes, at the same time as the model's own."""

    def propose(self, text_ids: Sequence[int], tokens: int) -> Draft:
        """Return a draft of so many tokens after a text.

        A text goes on from the one before, without what was not accepted.
        """


class LookUp:
    """Drafts by prompt lookup, which need no model."""

    name = NGRAM

    def __init__(self, times: DraftTimes, context: int) -> None:
        self.place, self.passes = times.place, 0
        self._times, self._context = times, context

    def read(self, prompt: Sequence[int]) -> float:
        """Return no cycles: the ids of the prompt come to the place of drafts as to the model."""
        return 0.0

    def propose(self, text_ids: Sequence[int], tokens: int) -> Draft:
        """Return what followed the last tokens of the text before."""
        found = prompt_lookup(text_ids, tokens)
        cycles = self._times.look_up_cycles(self._context, tokens)
        return Draft(tokens=found, cycles=cycles if found else cycles + self._times.round_trip_cycles())


class DraftModel:
    """Drafts of a model, which runs on PEs of its own, or on the host, in passes over one token.

    It draws ids as the model does: where that takes the likeliest, so does the draft. ``times`` has the place;
    ``vocabulary`` are the model's ids.
    """

    def __init__(
        self, prepared: PreparedDraft, program: Program, engine: Engine, times: DraftTimes, vocabulary: int
    ) -> None:
        run = prepared.run
        self.name, self.place, self.passes = prepared.name, prepared.place, 0
        self.program, self.engine = program, engine
        self._sampling: Sampling = run.request.sampling.rule()
        self._random = np.random.default_rng([self._sampling.seed, 1])  # other draws than the model's
        self._clock = RunTotals(Fabric(program, run.wafer, run.software, run.meshes))
        self._times, self._vocabulary = times, vocabulary
        float_bytes = ELEMENT_BYTES[program.element_type("act")]
        self._token_cycles = times.host_token_cycles(stored_bytes(run.spec, program.weight_type, float_bytes))
        self._prompt_tokens, self._cached = 0, list[int]()  # ids in the cache behind the prompt
        stage = next(stage for stage in program.stages if stage.has_embedding)
        self._region = Region(rows=stage.rect.rows, cols=stage.cols)

    def read(self, prompt: Sequence[int]) -> float:
        """Run the prompt; on the host it takes as long as one token, which reads all weights too."""
        for index in self.engine.prefill(prompt):
            self._clock.prefill_chunk(index, dict(self.engine.expert_pairs))
        self._prompt_tokens = len(prompt)
        return self._token_cycles if self.place == HOST else self._clock.prefill.cycles

    def propose(self, text_ids: Sequence[int], tokens: int) -> Draft:
        """Run what the cache lacks of the text, then one drafted token after another.

        1. What the cache has beyond the text, tokens that were not accepted, is taken off.
        2. The text's further tokens run: the last one gives the first drafted token.
        3. Each drafted token but the last runs, and gives the next one.
        4. The last one runs while the model verifies the draft, in case all of it is accepted.
        """
        before, passes = self._clock.verify.cycles, self.passes
        text = list(text_ids)
        further = text[self._prompt_tokens :]
        pairs = zip(self._cached, further[:-1], strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._take_back(len(self._cached) - same)  # 1
        drafted, drawn = list[int](), list[Scores]()
        for token in further[same:-1]:  # 2
            self._run(token)
        token = further[-1]
        while len(drafted) < tokens:
            likeliest = self._run(token)
            token = self._choose(likeliest, (*text, *drafted), drawn)
            drafted.append(token)  # 3
        times = self._times
        cycles = self._cycles_since(passes, before)
        passes, before = self.passes, self._clock.verify.cycles
        self._run(token)  # 4
        if self.place != HOST:
            cycles += times.exchange_cycles(2, self._region, times.region)  # how many count, and the id behind them
            cycles += times.exchange_cycles(tokens, times.region, self._region)
        return Draft(
            tokens=tuple(drafted),
            cycles=cycles,
            beside_cycles=self._cycles_since(passes, before),
            probabilities=tuple(drawn) if drawn else None,
        )

    def _cycles_since(self, passes: int, cycles: float) -> float:
        """Return the cycles of all passes since there were so many, on PEs since their clock stood there."""
        if self.place == HOST:
            return (self.passes - passes) * self._token_cycles
        return self._clock.verify.cycles - cycles

    def _run(self, token: int) -> int:
        """Run a token; the likeliest id behind it."""
        (likeliest,) = self.engine.verify([token])
        self.engine.keep(1)
        self._clock.verify_pass(1, pairs=dict(self.engine.expert_pairs))
        self._cached.append(token)
        self.passes += 1
        return likeliest

    def _choose(self, likeliest: int, text_ids: Sequence[int], drawn: list[Scores]) -> int:
        """The next id of the draft; where the host draws, ``drawn`` gains the probabilities that it is drawn with."""
        if not self._sampling.on_host:
            return min(likeliest, self._vocabulary - 1)  # rows of padding behind it stand for no id
        logits = np.full(self._vocabulary, -np.inf, np.float32)
        own = self.engine.verified_logits[0, : self._vocabulary]
        logits[: len(own)] = own
        drawn.append(probabilities(logits, list(dict.fromkeys(text_ids)), self._sampling))
        return draw(drawn[-1], self._random)

    def _take_back(self, tokens: int) -> None:
        if tokens:
            self.engine.caches.take_back(0, tokens)
            self._clock.lengths[0] -= tokens
            del self._cached[-tokens:]
