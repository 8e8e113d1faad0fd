"""Speed of the emulator compared with plain decoders, and the correctness of these decoders.

``python tests/benchmarks/peers.py`` compares them for other models, meshes and numbers of threads.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session import model

from tests.benchmarks.c_decoder import CDecoder, compiler
from tests.benchmarks.conftest import BySize, Say
from tests.benchmarks.numpy_decoder import NumpyDecoder
from tests.benchmarks.peers import compare, lines
from tests.benchmarks.torch_decoder import TorchDecoder


def test_peers_beside_each_other(beside: Path, by_size: BySize, say: Say, tmp_path: Path) -> None:
    repeats, prompt_repeats, prompt_tokens = (
        by_size(small=3, full=20),
        by_size(small=1, full=5),
        by_size(small=96, full=512),
    )
    folder = beside / "models" / "stories15m"
    counts = {"prompt_tokens": prompt_tokens, "repeats": repeats, "prompt_repeats": prompt_repeats}
    found = compare(folder, (48, 48), dtype="float16", build=tmp_path, **counts)
    goals = "decoding 1.0 x numpy, aim: C; prompt 0.25 x torch, aim 0.5"
    say(f"stories15m on 48x48 (goals: {goals})\n    " + "\n    ".join(lines(found)))


@pytest.mark.parametrize("peer", ["numpy", "C", "torch"])
def test_a_peer_gives_the_logits_of_transformers(shared: Path, tmp_path: Path, peer: str) -> None:
    folder = shared / "models" / "stories260k"
    if (peer == "C" and compiler() is None) or (peer == "torch" and importlib.util.find_spec("torch") is None):
        pytest.skip(f"{peer} is not installed")
    loaded = model(folder)
    assert loaded.checkpoint is not None
    with np.load(folder / "golden.npz") as arrays:
        ids, logits = arrays["input_ids"].tolist(), arrays["logits"]
    asked: tuple[Any, ...] = loaded.spec, loaded.checkpoint, len(ids)
    makers = {"numpy": NumpyDecoder, "torch": TorchDecoder, "C": lambda *given: CDecoder(*given, tmp_path)}
    decoder, read = makers[peer](*asked), len(ids) // 2
    given = [decoder.read(ids[:read]).copy(), *(decoder.step(token).copy() for token in ids[read:])]
    np.testing.assert_allclose(given, logits[read - 1 :], atol=2e-4)
