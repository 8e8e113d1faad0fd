"""``wse run --record``: what ops make, in the trace, pass by pass."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.cli.conftest import Wse
from wse_traces import open_trace, problems

ASKED = ("--prompt-ids", "3,5,7,9,11,13,15", "--mesh", "4x4", "--new-tokens", "4", "--schedule", "baseline")


def test_every_pass_has_the_tensors_that_were_asked_for(wse: Wse, tiny: Path) -> None:
    asked = ("run", tiny, *ASKED, "--logits", "--json", "--trace", "t.h5")
    report = json.loads(wse(*asked, "--record", "activations").out)
    assert problems("t.h5") == []
    with open_trace("t.h5") as trace:
        ops, kinds, layers = (trace.column(f"graph/ops/{name}") for name in ("name", "kind", "layer"))
        passes, of = trace.column("tensors/pass"), trace.column("tensors/op")
        held = {(int(p), ops[op].decode()): trace.tensor(i) for i, (p, op) in enumerate(zip(passes, of, strict=True))}
        assert len(held) == len(passes)
        tokens = trace.column("tokens/pass")[trace.column("tokens/is_prompt") == 1]
        prompt, last = np.unique(tokens), int(tokens.max())
        always = {op for op, layer, kind in zip(ops, layers, kinds, strict=True) if layer >= 0 or kind == b"embedding"}
        for index in range(trace.rows("pass")):
            ends = index not in prompt or index == last  # what follows the layers is of the last chunk alone
            assert {name.encode() for p, name in held if p == index} == (set(ops) if ends else always)
            count = int((tokens == index).sum()) if index in prompt else 1
            assert held[index, "layers.1.down"].shape == (1, 1, count, trace.tensor(0).shape[-1])
        assert held[last, "head"].ravel().tolist() == report["prompt_logits_last"]
        made = [int(held[index, "head"].argmax()) for index in range(last, trace.rows("pass"))]
        assert made == report["tokens"]
        assert np.array_equal(held[last, "layers.0.qkv"].dtype, np.dtype("float32"))
    plain = json.loads(wse(*asked).out)
    assert plain["tokens"] == report["tokens"]
    assert plain["decode"] == report["decode"]  # the wafer does not notice


def test_some_ops_by_name_and_pattern(wse: Wse, tiny: Path) -> None:
    assert wse("run", tiny, *ASKED, "--trace", "t.h5", "--record", "activations=layers.*.attention, head").code == 0
    with open_trace("t.h5") as trace:
        ops = trace.column("graph/ops/name")[np.unique(trace.column("tensors/op"))].tolist()
        assert ops == [b"layers.0.attention", b"layers.1.attention", b"head"]
