"""Measure by how much explicit layouts beat ``--mapping auto``.

    python tests/benchmarks/auto_gap.py

A *layout* divides wafers into regions. For each request, layouts of all mappings, on whole meshes
and on parts of them, are tried on reduced models: all layouts for small models, and layouts that
are drawn at random for larger models. Those that take at most ``CLOSE`` more cycles than the fastest
of them are compiled fully, each with the rewrites, chunks, attention columns and all-reduce trees
that suit it best. The gap is the excess of the cycles of a whole request with ``auto`` over the
fastest of these layouts. It is negative if ``auto`` is faster than all of them.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from wse.cache.store import without_cache
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.exploring.explore import first_rewrites
from wse.compiler.search.finalists import Finalists
from wse.compiler.search.trees import without_fitted
from wse.compiler.search.trials.trial import Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.search.trials.try_layout import try_products
from wse.compiler.strategies import strategy
from wse.errors import BadMesh, DoesNotFit
from wse.studies.compile.choose import compile_fastest
from wse.studies.compile.request_time import request_cycles, timing_of
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse_mappings.regions.layout import Layout

CLOSE: Final = 0.06
"""Maximum excess of the layouts that are compiled fully over the fastest, on reduced models.

On reduced models, the cycles of two layouts are compared with an error of at most about 4 %.
"""
MESHES: Final = "16x16 20x20 24x16 24x32 32x32 48x24 40x40 64x32 48x48 64x64 96x48 80x80 96x96 128x64 128x128 192x96"
LARGER_MESHES: Final = "96x96 128x96 128x128 192x128 200x160 256x128 256x192 256x256"
PAIRS: Final = (
    *((model, mesh) for mesh in MESHES.split() for model in ("story-draft", "story")),
    *(("smollm2-135m", mesh) for mesh in LARGER_MESHES.split()),
)
"""Small models, each with a mesh."""
LARGE: Final = (
    "qwen3-0.6b",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "llama-3-8b",
    "gemma-2-9b",
    "qwen3-14b",
    "gpt-oss-20b",
    "qwen3-30b-a3b",
    "mixtral-8x7b",
    "llama-3.1-70b",
)


class Gap(NamedTuple):
    """A comparison of ``auto`` with other layouts.

    Attributes:
        request: Description of the request.
        percent: Excess of the cycles with ``auto`` over those of the fastest layout, in percent.
        layout: The fastest layout.
        layouts: Number of layouts that fit.
    """

    request: str
    percent: float
    layout: Layout
    layouts: int


class Comparison:
    """A request, and the means to compile it on any layout."""

    def __init__(self, prepared: PreparedEstimate) -> None:
        """Prepare the trials of a request."""
        p = self.prepared = prepared
        rewrites = rewrites_of(p.spec, p.options)
        self.rewrites = without_fitted(rewrites)
        self.fitted_names = {name for name, _ in rewrites} - {name for name, _ in self.rewrites}
        self.setup = TrialSetup(
            spec=p.spec,
            wafer=p.wafer,
            software=p.software,
            options=p.options,
            rewrites=first_rewrites(self.rewrites, p.options),
            timing=timing_of(p),
        )

    def layouts(self, steps: int) -> list[Layout]:
        """Return the layouts of all mappings, on whole wafers and on parts of them.

        Args:
            steps: Number of sizes of regions within each factor of 2 of a side.
        """
        whole = self.setup.layouts()
        smaller = strategy(self.prepared.options.mapping).smaller
        parts = (part for layout in whole for part in smaller(self.setup.demand, layout, steps))
        return list(dict.fromkeys((*whole, *parts)))

    def trials(self, layouts: Sequence[Layout]) -> list[Trial]:
        """Try layouts on reduced models, and return the trials that fit and may be the fastest."""
        trials: list[Trial] = []
        for layout in layouts:
            limit = (1 + CLOSE) * min((trial.request_cycles for trial in trials), default=math.inf)
            products = self.setup.products(layout)
            try:
                if products and self.setup.allows(self.setup.reduced_model(layout, products[-1]).min_bytes()):
                    trials += try_products(self.setup, layout, products, limit)
            except (BadMesh, DoesNotFit):
                continue
        limit = (1 + CLOSE) * min((trial.request_cycles for trial in trials), default=0.0)
        return [trial for trial in trials if trial.request_cycles <= limit]

    def cycles(self, trial: Trial) -> float:
        """Return the cycles of the request if the layout of a trial is compiled fully."""
        finalists = Finalists(self.setup, self.rewrites, self.fitted_names, has_cost=True)
        finalists.compile_fastest([[trial]], 1, 0.0)
        return min((request_cycles(self.prepared, found.program) for found in finalists.finalists), default=math.inf)

    def gap(self, request: str, layouts: Sequence[Layout]) -> Gap | None:
        """Compare ``auto`` with other layouts; return None if none of them fits.

        Args:
            request: Description of the request.
            layouts: The other layouts.
        """
        cycles = {trial.layout: self.cycles(trial) for trial in self.trials(layouts)}
        if not cycles:
            return None
        auto_cycles = request_cycles(self.prepared, compile_fastest(self.prepared).program)
        fastest = min(cycles, key=cycles.__getitem__)
        return Gap(request, 100 * (auto_cycles / cycles[fastest] - 1), fastest, len(layouts))


def gaps(requests: Iterable[tuple[str, str | None]], steps: int, max_layouts: int | None, tokens: int) -> Iterator[Gap]:
    """Yield the gap of each request for which a layout fits.

    Args:
        requests: Pairs of a model and a mesh; None for the whole mesh of the default wafer.
        steps: Number of sizes of regions to try within each factor of 2 of a side.
        max_layouts: Number of layouts to draw at random; None to compare with all layouts.
        tokens: Length of the prompt and of the answer.
    """
    for model, mesh in requests:
        request = make_request(EstimateRequest, model=model, mesh=mesh, prompt_len=tokens, new_tokens=tokens)
        compared = Comparison(prepare_estimate(request))
        layouts = compared.layouts(steps)
        if max_layouts is not None:
            layouts = random.Random(0).sample(layouts, min(max_layouts, len(layouts)))
        gap = compared.gap(model if mesh is None else f"{model} on {mesh}", layouts)
        if gap is not None:
            yield gap


def summary(measured: Sequence[Gap]) -> str:
    """Return a line per request, and a line with the largest gap."""
    lines = [
        f"{gap.request:24} {gap.percent:+6.2f} % of {gap.layouts:5} layouts; fastest: {gap.layout.mapping} with "
        f"{gap.layout.bands}x{gap.layout.per_band} regions on {gap.layout.mesh or 'the whole mesh'}"
        for gap in measured
    ]
    return "\n".join([*lines, f"auto is beaten by at most {max(gap.percent for gap in measured):.2f} %"])


def main(arguments: Sequence[str] | None = None) -> list[Gap]:
    """Measure the gaps of the requests that the arguments select."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=len(PAIRS), help="number of pairs of a small model and a mesh")
    parser.add_argument("--models", type=int, default=len(LARGE), help="number of larger models")
    parser.add_argument("--layouts", type=int, default=200, help="number of random layouts of a larger model")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of the prompt, and of the answer")
    parser.add_argument("--steps", type=int, default=2, help="sizes of regions to try per factor of 2 of a side")
    given = parser.parse_args(arguments)
    steps, tokens = given.steps, given.tokens
    large = [(model, None) for model in LARGE[: given.models]]
    return [*gaps(PAIRS[: given.pairs], steps, None, tokens), *gaps(large, steps, given.layouts, tokens)]


if __name__ == "__main__":
    with without_cache():
        sys.stdout.write(f"{summary(main())}\n")
