"""Random tiny models on random meshes with random rewrites, and their comparison with reference and fabric model."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from plain_decoder import plain_logits
from session import SOFTWARE, check_traffic, region_options, wafer, worst_error
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.choice import Choice, Rewrites
from wse.compiler.options import BASELINE, FITTED_TREES, OPTIMIZED, THIN_GEMM, WIDE_UNPACKING, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.trees import with_group_count
from wse.models.attention_traits import HeadShape, Latent, PositionScale
from wse.models.configs.rope import plain_rope
from wse.models.expert_traits import Experts
from wse.models.spec import Layer, ModelSpec
from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED

Random = np.random.Generator
SRAM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomCase:
    """A random model, mesh, options and choice of the compiler, and the token ids of each user.

    Attributes:
        groups: Number of groups of all-reduces whose trees may be fitted; 0 for the fewest relays.
        prompts: Prompt of each user.
        following: Ids that are decoded after the prompt of each user, whatever the model predicts.
    """

    spec: ModelSpec
    mesh: tuple[int, int]
    options: Options
    choice: Choice
    groups: int
    prompts: tuple[tuple[int, ...], ...]
    following: tuple[tuple[int, ...], ...]

    @property
    def description(self) -> str:
        """All drawn values, for messages of failed tests."""
        return f"{self.spec}\n{self.mesh} {self.options}\n{self.choice} in {self.groups} groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """Result of a run.

    Attributes:
        worst: Largest error of the logits relative to the largest logit.
        tokens_agree: Whether all generated tokens are those with the largest logit.
    """

    worst: float
    tokens_agree: bool


def random_case(seed: int) -> RandomCase:
    """Return the case of a seed: float32, one or two wafers, one to three users, often with verification passes."""
    draw = np.random.default_rng(seed)
    spec, batch = random_spec(draw), int(draw.choice([1, 1, 2, 3]))
    mesh, wafers = (int(draw.integers(1, 13)), int(draw.integers(1, 26))), int(draw.choice([1, 1, 2]))
    prompts = tuple(random_ids(draw, spec, 1, 9) for _ in range(batch))
    following = tuple(random_ids(draw, spec, 4, 5) for _ in range(batch))
    options = region_options(
        mapping="pipeline" if draw.integers(3) == 0 else "region",
        wafers=min(wafers, spec.layer_count),
        context=24,
        prompt_tokens=tuple(map(len, prompts)),
        logits_out="all",
        experts=str(draw.choice([DISTRIBUTED, DEDICATED, "2", "grouped"])) if spec.experts is not None else DISTRIBUTED,
        schedule=OPTIMIZED,
        verify_tokens=int(draw.choice([0, 1, 2, 4])),
    )
    pieces = int(draw.integers(1, 3)) if options.mapping == "pipeline" else 1
    cut = pieces * options.wafers > 1 and not any(map(spec.has_post_norms, spec.layers)) and draw.integers(2)
    choice = Choice(
        bands=pieces if mesh[0] >= pieces else 1,
        prefill=THIN_GEMM,
        prefill_chunk=int(draw.integers(1, 6)),
        head_chunk=int(draw.integers(1, 12)),
        rewrites=random_rewrites(draw, spec, options),
        verify_rewrites=random_rewrites(draw, spec, options) if options.verify_tokens and draw.integers(2) else None,
        attention_cols=int(draw.integers(1, mesh[1] + 1)) if draw.integers(2) else 0,
        block_parts=int(draw.choice([2, 4, 8])) if cut and options.mapping == "pipeline" else 0,
    )
    groups = int(draw.choice([0, 1, 2, 5]))
    return RandomCase(
        spec=spec, mesh=mesh, options=options, choice=choice, groups=groups, prompts=prompts, following=following
    )


def random_ids(draw: Random, spec: ModelSpec, min_count: int, end: int) -> tuple[int, ...]:
    """Return ``min_count`` to ``end`` - 1 random ids."""
    return tuple(draw.integers(0, spec.vocab_size, int(draw.integers(min_count, end))).tolist())


def random_rewrites(draw: Random, spec: ModelSpec, options: Options) -> Rewrites:
    """Return all or some of the valid rewrites with random settings, without those that the search fits."""
    valid = [name for name, _ in rewrites_of(spec, options) if name not in (FITTED_TREES, WIDE_UNPACKING)]
    fraction = float(draw.choice([1.0, 0.8, 0.4]))
    return tuple(
        (name, int(draw.choice(known_rewrites()[name].settings))) for name in valid if draw.random() < fraction
    )


def random_spec(draw: Random) -> ModelSpec:
    """Return a model of one to three layers with random compatible traits."""

    def maybe(probability: float = 0.3) -> bool:
        return bool(draw.random() < probability)

    kv_heads, queries_per_kv = int(draw.choice([1, 1, 2, 3, 4])), int(draw.choice([1, 2, 3]))
    head_size = 2 * int(draw.integers(1, 7))
    spec = tiny_spec(
        hidden=int(draw.integers(5, 80)),
        heads=kv_heads * queries_per_kv,
        kv_heads=kv_heads,
        head_size=head_size,
        ffn=int(draw.integers(3, 90)),
        vocab=int(draw.integers(5, 90)),
        tied=maybe(0.5),
        layers=int(draw.integers(1, 4)),
    )
    norm = "layer" if maybe() else "rms"
    traits: dict[str, Any] = {
        "norm": norm,
        "norm_bias": maybe(0.6),
        "head_bias": maybe(),
        "qkv_bias": maybe(),
        "output_bias": maybe(),
        "ffn_bias": maybe(),
        "gated": maybe(0.8),
        "post_norms": maybe(0.2),
        "norm_unit_offset": maybe(),
        "logit_cap": 3.0 if maybe() else None,
        "logit_scale": 0.5 if maybe() else 1.0,
        "activation": str(draw.choice(["silu", "silu", "gelu_tanh", "relu", "relu2"])),
    }
    if traits["post_norms"]:
        traits["pre_norms"] = maybe(0.5)
    else:
        traits["residual_scale"] = 0.3 if maybe() else 1.0
        traits["parallel_blocks"] = maybe()
    windows = [int(n) for n in draw.choice([0, 0, 3, 5], 2)]
    rotary = maybe(0.85)
    layers = [Layer(rotary=rotary) for _ in spec.layers]
    if maybe(0.35):
        heads = int(draw.integers(1, 7))
        sizes = Latent(
            q_rank=int(draw.choice([0, 7, 11])),
            kv_rank=int(draw.integers(3, 14)),
            nope_size=int(draw.integers(2, 8)),
            rope_size=2 * int(draw.integers(1, 4)),
            value_size=int(draw.integers(2, 9)),
        )
        traits |= {"latent": sizes, "head_count": heads, "kv_head_count": 1, "family": "deepseek_v3"}
        traits |= {"head_size": sizes.kv_rank + sizes.rope_size, "attention_scale": 0.4, "norm": "rms"}
        traits |= {"rope": replace(plain_rope(sizes.rope_size, 1e4), multiplier=1.25), "post_norms": False}
        layers = [Layer() for _ in layers]
    else:
        rotated = 2 * int(draw.integers(1, head_size // 2 + 1)) if maybe() else head_size
        traits |= {
            "head_norm": str(draw.choice(["", "", "rms", "rms_all", "l2"])),
            "sinks": maybe(),
            "score_cap": 0.5 if maybe() else None,
            "rope": plain_rope(rotated, 1e4) if rotary else None,
            "window_rope": plain_rope(rotated, 1e2) if rotary and maybe() else None,
        }
        layers = [replace(layer, window=windows[i % 2] or None) for i, layer in enumerate(layers)]
        if maybe() and rotary:
            layers[-1] = Layer(chunk=5, rotary=False)
            traits["position_scale"] = PositionScale(coefficient=0.3, floor_tokens=4, rotary=maybe())
    if maybe(0.5):
        traits |= {"experts": random_experts(draw), "gated": True, "post_norms": False}
        layers = [replace(layer, experts=i == len(layers) - 1 or maybe(0.5)) for i, layer in enumerate(layers)]
        if traits["ffn_bias"]:
            traits |= {"activation": "clamped_silu", "activation_limit": 1.5}
    if not traits["post_norms"]:
        traits["pre_norms"] = True
    return with_rare_traits(draw.spawn(1)[0], replace(spec, layers=tuple(layers), **traits))


def with_rare_traits(draw: Random, spec: ModelSpec) -> ModelSpec:
    """Return a model with random traits in addition: of layers, and of standard attention."""
    layers, traits = [*spec.layers], {"stream_scale": bool(draw.integers(2))}
    if spec.latent is None:
        traits |= {"value_norm": bool(draw.integers(2)), "keys_as_values": draw.integers(3) == 0}
        size = 2 * int(draw.integers(1, 7))
        shape = HeadShape(kv_count=int(draw.choice([1, spec.kv_head_count, spec.head_count])), size=size)
        if draw.integers(2):
            window_rope = plain_rope(2 * int(draw.integers(1, size // 2 + 1)), 1e2)
            traits |= {"window_heads": shape, "window_rope": window_rope if spec.rope is not None else None}
    if spec.experts is None and not spec.parallel_blocks and spec.residual_scale == 1.0 and draw.integers(3) == 0:
        index = int(draw.integers(len(layers)))
        layers[index] = replace(layers[index], pre_norms=bool(draw.integers(2)), post_norms=True)
    if spec.experts is not None:
        has_plain_stream = not spec.parallel_blocks and spec.residual_scale == 1.0 and spec.latent is None
        separate = spec.experts.shared_size > 0 and has_plain_stream and bool(draw.integers(2))
        traits |= {"norm": "rms", "post_norms": True} if separate else {}
        traits["experts"] = replace(spec.experts, separate_norms=separate, expert_scale=bool(draw.integers(2)))
    return replace(spec, layers=tuple(layers), **traits)


def random_experts(draw: Random) -> Experts:
    """Return random valid parameters of a mixture of experts."""
    groups = int(draw.choice([1, 1, 3]))
    count = groups * int(draw.integers(2, 6))
    sigmoid = bool(draw.integers(2))
    chosen_groups = int(draw.integers(1, groups + 1))
    mixes = not sigmoid and groups == 1 and bool(draw.integers(2))
    return Experts(
        count=count,
        active=int(draw.integers(1, min(4, count // groups * chosen_groups) + 1)),
        ffn_size=int(draw.integers(2, 20)),
        scoring="sigmoid" if sigmoid else "softmax",
        normalised=bool(draw.integers(2)) and not mixes,
        mixer_tolerance=0.4 if mixes else None,
        scale=float(draw.choice([1.0, 2.5])),
        groups=groups,
        chosen_groups=chosen_groups,
        correction=bool(draw.integers(2)) and not mixes,
        router_bias=bool(draw.integers(2)),
        weighs_input=bool(draw.random() < 0.2),
        shared_size=int(draw.choice([0, 0, 9, 16])),
    )


def baseline(case: RandomCase) -> RandomCase:
    """Return the same case with the baseline schedule and attention on all columns."""
    choice = replace(case.choice, rewrites=(), verify_rewrites=None, attention_cols=0)
    return replace(case, options=replace(case.options, schedule=BASELINE), choice=choice, groups=0)


def run_case(case: RandomCase) -> CaseRun:
    """Run all prompts, decode the following tokens, and run a verification pass per user if the options have one.

    The errors are relative to the plain decoder, which gets the same ids. The words on all links are checked against
    the fabric model.
    """
    spec, machine, all_tensors = case.spec, wafer(*case.mesh, SRAM_BYTES), tensors(case.spec)
    choice = case.choice
    if case.groups:
        choice = with_group_count(spec, machine, SOFTWARE, case.options, choice, case.groups)
    program = compile_choice(spec, machine, SOFTWARE, case.options, choice)
    engine, fabric = Engine(program, spec, all_tensors.__getitem__), Fabric(program, machine, SOFTWARE)

    def pairs() -> dict[int, Any]:
        return dict(engine.routing.pairs)

    errors, agree = [0.0], []
    ids = [list(prompt) for prompt in case.prompts]
    costs: list[PhaseCost] = [fabric.prefill_cost(index, pairs()) for index in engine.prefill(*case.prompts)]

    def judge(user: int, logits: Any, tokens: list[int]) -> None:
        """Record the error of the logits ``[n, vocabulary]`` of a user's last n ids, and compare the predicted ids."""
        expected = plain_logits(spec, all_tensors.__getitem__, ids[user])[-len(tokens) :]
        errors.append(worst_error(logits, expected))
        agree.extend(logits.argmax(axis=1) == tokens)

    for user, token in enumerate(engine.tokens):
        judge(user, engine.logits[user : user + 1], [token])
    for step in range(len(case.following[0])):
        lengths = [len(known) for known in ids]
        tokens = engine.decode([tokens[step] for tokens in case.following])
        costs.append(fabric.decode_cost(*lengths, expert_tokens=pairs()))
        for user, token in enumerate(tokens):
            ids[user].append(case.following[user][step])
            judge(user, engine.logits[user : user + 1], [token])
    for user, known in enumerate(ids if case.options.verify_tokens else ()):
        drafts = [*case.following[user], *case.prompts[user], 1, 1, 1][: case.options.verify_tokens]
        found, length = engine.verify(drafts, user), len(known)
        costs.append(fabric.verify_cost(length, pairs()))
        known += drafts
        judge(user, engine.verified_logits, found)
        engine.keep(1, user)
    check_traffic(engine, costs)
    return CaseRun(worst=max(errors), tokens_agree=all(agree))
