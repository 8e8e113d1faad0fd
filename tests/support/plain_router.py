"""Reference implementation of expert routing in numpy float64, and mixtures of experts for tests."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tiny_model import tiny_spec

from wse.models.expert_traits import Experts
from wse.models.spec import Layer, ModelSpec

F64 = npt.NDArray[np.float64]
Weight = Callable[[str], F64]

MIXTURES = {
    "softmax": Experts(count=7, active=2, ffn_size=10),
    "not normalised": Experts(count=4, active=3, ffn_size=11, normalised=False),
    "limited to groups": Experts(
        count=12, active=3, ffn_size=7, scoring="sigmoid", groups=4, chosen_groups=2, correction=True, scale=2.5
    ),
    "one expert, weighed on its way in": Experts(
        count=3, active=1, ffn_size=9, scoring="sigmoid", normalised=False, weighs_input=True, shared_size=13
    ),
    "sparse mixer": Experts(count=6, active=2, ffn_size=10, normalised=False, mixer_tolerance=0.4),
    "biased": Experts(count=6, active=4, ffn_size=5, router_bias=True),
    "shared": Experts(count=5, active=2, ffn_size=6, shared_size=8, scoring="sigmoid", correction=True),
    "separate norms": Experts(count=5, active=2, ffn_size=6, shared_size=8, separate_norms=True, expert_scale=True),
}


def mixture_spec(experts: Experts, layers: int = 2, **changes: Any) -> ModelSpec:
    """Return a tiny model whose first layer is dense and whose other layers have experts; ``changes`` are fields."""
    if experts.router_bias:  # as in gpt-oss: all products have biases, and the activation is clamped
        changes = {"ffn_bias": True, "activation": "clamped_silu", "activation_limit": 1.5} | changes
    changes = {"post_norms": experts.separate_norms} | changes
    kinds = (Layer(), *(Layer(experts=True),) * (layers - 1))
    return replace(tiny_spec(layers=layers), layers=kinds, experts=experts, **changes)


def routes(e: Experts, w: Weight, x: F64) -> list[tuple[list[int], F64]]:
    """Return (ids, weights) of the selected experts for each row of x ``[tokens, hidden]``, the best expert first."""
    logits = x @ w("router").T + (w("router_bias") if e.router_bias else 0.0)
    scores = 1 / (1 + np.exp(-logits))
    if e.scoring == "softmax":
        scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = []
    for row in scores:
        choice = row + (w("router_correction") if e.correction else 0.0)
        grouped = choice.reshape(e.groups, -1)
        best = np.sort(grouped, axis=1)[:, -2:].sum(axis=1)
        if e.chosen_groups < e.groups:
            grouped[np.argsort(best)[: e.groups - e.chosen_groups]] = -np.inf
        ids = np.argsort(-choice, kind="stable")[: e.active]
        weights = row[ids] / row[ids].sum() if e.normalised else row[ids]
        if e.mixer_tolerance is not None:
            weights = _sparse_mixer_weights(logits[len(found)], ids, 2 * e.mixer_tolerance)
        found.append((ids.tolist(), weights * e.scale * (w("expert_scale")[ids] if e.expert_scale else 1.0)))
    return found


def _sparse_mixer_weights(outputs: F64, ids: npt.NDArray[np.intp], width: float) -> F64:
    """Return the weights of a sparse mixer.

    The weight of an expert is its softmax over the experts with a similar output that are not selected yet.

    Args:
        outputs: Router outputs of one token, ``[experts]``.
        ids: Selected experts, the best first.
        width: Largest relative difference of similar outputs.
    """
    weights = []
    for i, best in enumerate(outputs[ids]):
        others = np.delete(outputs, ids[:i])
        near = others[best - others <= width * np.maximum(np.abs(others), best)]
        weights.append(1 / np.exp(near - best).sum())
    return np.array(weights)


def one_expert(e: Experts, w: Weight, expert: int) -> Weight:
    """Return a function from the tensor names of a dense block to the tensors of one expert."""

    def of(name: str) -> F64:
        stacked = w(f"experts.{name}")
        return np.asarray(stacked.reshape(e.count, -1, *stacked.shape[1:])[expert])

    return of
