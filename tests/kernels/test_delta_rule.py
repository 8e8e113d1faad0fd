"""Tests of the kernels of linear attention on a column of PEs, against the recurrence token by token."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.helpers import lay_out
from wse_kernels.operands.delta import (
    ConvolutionShape,
    ConvolutionTensors,
    DeltaInputs,
    DeltaShape,
    DeltaTensors,
    StateSlice,
)
from wse_kernels.oracle import delta_rule
from wse_kernels.oracle.memory import Pe

HK, G, D, V, TAPS = 2, 2, 6, 3, 3
H, CHANNELS = HK * G, 2 * HK * D + HK * G * V
STRIDE, TOKENS = CHANNELS + H * V + 2 * H, 7
TYPES = dict.fromkeys(("act", "wgt", "acc", "f32"), "float32")


def recurrence(x: Any, taps: Any, decay: Any, max_strength: int) -> Any:
    """Return the results ``[tokens, H, V]`` in float64, with the state as a plain matrix."""
    history = np.concatenate([np.zeros((TAPS - 1, CHANNELS)), x[:, :CHANNELS]])
    mixed = sum(taps[j] * history[j : j + len(x)] for j in range(TAPS))
    q, k, v = np.split(mixed / (1 + np.exp(-mixed)), [HK * D, 2 * HK * D], axis=1)
    q, k = (np.repeat(part.reshape(-1, HK, D), G, axis=1) for part in (q, k))
    q, k = (part / np.sqrt((part * part).sum(axis=-1, keepdims=True) + 1e-6) for part in (q, k))
    strength, decays = max_strength / (1 + np.exp(-x[:, -2 * H : -H])), x[:, -H:] + decay[1]
    factors = np.exp(-np.exp(decay[0]) * np.logaddexp(0, decays))
    state, out = np.zeros((H, D, V)), []
    for t in range(len(x)):
        state *= factors[t][:, None, None]
        correction = strength[t][:, None] * (v[t].reshape(H, V) - np.einsum("hd,hdv->hv", k[t], state))
        state += k[t][..., None] * correction[:, None]
        out.append(np.einsum("hd,hdv->hv", q[t], state) / np.sqrt(D))
    return np.array(out)


@pytest.mark.parametrize("blocks", [(1,) * TOKENS, (3, 3, 1), (TOKENS,)], ids=str)
@pytest.mark.parametrize(("rows", "max_strength"), [(1, 1), (4, 2), (15, 1), (40, 2)])
def test_a_column_of_pes_computes_the_recurrence(rows: int, max_strength: int, blocks: tuple[int, ...]) -> None:
    rng = np.random.default_rng(rows)
    x, taps, decay = rng.normal(size=(TOKENS, STRIDE)), rng.normal(size=(TAPS, CHANNELS)), rng.normal(size=(2, H))
    K = -(-D // rows)
    part = StateSlice(K=K, N=-(-V // max(1, rows // -(-D // K))), key_rows=-(-D // K))
    convolution = ConvolutionShape(taps=TAPS, C=-(-H * V // rows), stride=STRIDE)
    count = 2 * HK * K
    names = ("new_keys", "x", "key_taps", "value_taps", "inputs", "keys", "sums", "decay", "state", "out", "scratch")
    sizes = (
        TOKENS * count,
        TOKENS * STRIDE,
        TAPS * count,
        TAPS * H * V,
        (TAPS - 1) * (count + convolution.C),
        TOKENS * count,
    )
    sizes += (TOKENS * (4 * H * V + HK * (2 * TOKENS + 1)), 2 * H, H * K * part.N, TOKENS * H * V, 2 * TOKENS)
    places, size = lay_out([(n, "float32") for n in sizes])
    address = {name: place.address for name, place in zip(names, places, strict=True)}
    pes = [Pe(np.full(size, 0x11, np.uint8), row, 0, TYPES) for row in range(rows)]
    heads = np.arange(2 * HK)[:, None] * D
    for pe in pes:
        channels = heads + np.minimum(pe.row % part.key_rows * K + np.arange(K), D - 1)
        pe.write("wgt", address["key_taps"], taps[:, channels.reshape(-1)])
        pe.write("wgt", address["value_taps"], taps[:, 2 * HK * D :])
        pe.write("wgt", address["decay"], decay)
    ctl, first, found = np.zeros((rows, 8), np.int32), 0, []
    for M in blocks:
        shape = DeltaShape(M=M, Hk=HK, G=G, D=D, V=V, tokens_before=first)
        for pe in pes:
            channels = heads + np.minimum(pe.row % part.key_rows * K + np.arange(K), D - 1)
            pe.write("acc", address["new_keys"], x[first : first + M, channels.reshape(-1)])
            pe.write("acc", address["x"], x[first : first + M])
            tensors = {name: address[name] for name in names if name not in ("x", "decay", "state", "out", "scratch")}
            at = ConvolutionTensors(new_values=address["x"] + 2 * HK * D, **tensors)
            delta_rule.convolve_slices(pe, ctl, at, shape, part, convolution)
            delta_rule.state_products(pe, ctl, *(address[n] for n in ("keys", "state", "sums")), shape, part)
        elements = M * (4 * H * V + HK * (2 * M + 1))
        total = sum(pe.read("f32", address["sums"], elements) for pe in pes)
        for pe in pes:
            pe.write("f32", address["sums"], total)
            gates = address["x"] + CHANNELS
            tensors = {name: address[name] for name in ("decay", "keys", "sums", "state", "out", "scratch")}
            at_update = DeltaTensors(inputs=gates + H * V, gates=gates, **tensors)
            delta_rule.delta_update(pe, ctl, at_update, shape, part, DeltaInputs(STRIDE, max_strength))
        results = [pe.read("act", address["out"], M, H, V) for pe in pes]
        assert all(np.array_equal(results[0], other) for other in results)
        found.append(results[0])
        first += M
    np.testing.assert_allclose(np.concatenate(found), recurrence(x, taps, decay, max_strength), rtol=2e-4, atol=2e-5)
