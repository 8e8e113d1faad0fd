"""Measure passes of a model with random weights on a GPU, as rows for ``wse validate --data FILE``.

    python tests/benchmarks/gpu_decode.py llama-3-8b gpu_rows.csv

The script needs torch and an NVIDIA GPU; without them it prints a message and ends. It measures a
dense model in bfloat16:

- decode (metric ``tpot_ms``): one new token per user, for several numbers of users and contexts
- prefill (``ttft_ms``): the prompt of one user
- verify (``verify_ms``): several new tokens per user in one pass, as in speculative decoding
- product (``product_ms``): a single matrix product

A pass consists of the matrix products, the attention over a KV cache and the norms of each layer.
It is captured as a CUDA graph, so the costs of a server are not included. The rows therefore name a
serving stack of their own, ``graph``. If not all layers fit in memory, models with two numbers of
layers are measured and the time is extrapolated. The column ``note`` says so.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.studies.validate.measured.measurements import TABLES

BATCHES: Final = (1, 4, 16, 64, 128)
CONTEXTS: Final = (256, 1024, 4096)
PROMPTS: Final = (256, 1024, 4096)
VERIFIED: Final = (2, 4, 8)
REPEATS: Final = 20
NEW_TOKENS: Final = 2
"""Answer length that rows state. The pass in its middle has (prompt + 1) tokens of context."""


class Decoder:
    """Layers of a dense model with random weights on a GPU, and the KV caches of several users.

    Attributes:
        torch: The torch module.
        spec: The model.
        layers: Weights of each layer, by name.
        head: Output head, [vocabulary, hidden size].
        cache: Keys and values of each layer, [2, users, kv heads, context, head size].
        x: Inputs of a pass, [users, new tokens, hidden size].
    """

    def __init__(self, torch: Any, spec: ModelSpec, layers: int, users: int, context: int, new: int) -> None:
        self.torch, self.spec = torch, spec
        options = {"device": "cuda", "dtype": torch.bfloat16}
        hidden, heads, keys, size = spec.hidden_size, spec.head_count, spec.kv_head_count, spec.head_size

        def matrix(outputs: int, inputs: int) -> Any:
            return torch.randn(outputs, inputs, **options) * inputs**-0.5

        self.layers = [
            {
                "qkv": matrix((heads + 2 * keys) * size, hidden),
                "o": matrix(hidden, heads * size),
                "up": matrix(2 * spec.ffn_size, hidden),
                "down": matrix(hidden, spec.ffn_size),
                "norm": torch.ones(hidden, **options),
            }
            for _ in range(layers)
        ]
        self.head = matrix(spec.vocab_size, hidden)
        self.cache = [torch.randn(2, users, keys, context, size, **options) for _ in range(layers)]
        self.x = torch.randn(users, new, hidden, **options)

    def step(self) -> Any:
        """Run a pass over the new tokens of all users, and return the logits after the last ones.

        Returns:
            [users, vocabulary].
        """
        torch, spec, x = self.torch, self.spec, self.x
        function = torch.nn.functional
        users, new, _ = x.shape
        heads, keys, size = spec.head_count, spec.kv_head_count, spec.head_size
        for weights, (k, v) in zip(self.layers, self.cache, strict=True):
            y = function.rms_norm(x, (spec.hidden_size,), weights["norm"])
            q = (y @ weights["qkv"].T)[..., : heads * size].view(users, new, heads, size).transpose(1, 2)
            scores = function.scaled_dot_product_attention(
                q, k, v, enable_gqa=heads != keys, is_causal=1 < new == k.shape[2]
            )
            x = x + scores.transpose(1, 2).reshape(users, new, heads * size) @ weights["o"].T
            y = function.rms_norm(x, (spec.hidden_size,), weights["norm"])
            gate, up = (y @ weights["up"].T).chunk(2, dim=-1)
            x = x + (function.silu(gate) * up) @ weights["down"].T
        return x[:, -1] @ self.head.T


def graph_ms(torch: Any, step: Callable[[], Any]) -> float:
    """Capture a function as a CUDA graph and return the median milliseconds of its replays."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def layers_that_fit(torch: Any, spec: ModelSpec, users: int, context: int) -> int:
    """Return the number of layers whose weights and KV caches fit in 3/4 of the free GPU memory.

    Args:
        torch: The torch module.
        spec: The model.
        users: Number of users.
        context: Tokens in the cache of each user.
    """
    hidden, size = spec.hidden_size, spec.head_size
    weights = hidden * size * 2 * (spec.head_count + spec.kv_head_count) + 3 * hidden * spec.ffn_size
    cache = users * context * spec.cache_features
    free = 0.75 * torch.cuda.mem_get_info()[0] - 2 * spec.vocab_size * hidden
    return max(0, min(spec.layer_count, int(free // (2 * (weights + cache)))))


def pass_ms(torch: Any, spec: ModelSpec, users: int, context: int, new: int) -> tuple[float, str] | None:
    """Measure a pass of the whole model.

    Args:
        torch: The torch module.
        spec: The model.
        users: Number of users.
        context: Tokens in the KV cache of each user.
        new: New tokens per user.

    Returns:
        Milliseconds, and a note on how many layers were measured. None if not even two layers fit.
    """
    deep = layers_that_fit(torch, spec, users, context)
    if deep < 2:
        return None

    def measure(layers: int) -> float:
        decoder = Decoder(torch, spec, layers, users, context, new)
        milliseconds = graph_ms(torch, decoder.step)
        del decoder
        torch.cuda.empty_cache()
        return milliseconds

    whole = measure(deep)
    if deep == spec.layer_count:
        return whole, "all layers"
    shallow = measure(deep // 2)
    layer = (whole - shallow) / (deep - deep // 2)
    return whole + (spec.layer_count - deep) * layer, f"{deep // 2} and {deep} layers, extrapolated"


def rows(torch: Any, name: str, spec: ModelSpec) -> Iterator[dict[str, str]]:
    """Measure all passes, and yield a row for each, with the columns of the table ``gpu``.

    Passes for which the GPU has too little memory are omitted.

    Args:
        torch: The torch module.
        name: Name of the model.
        spec: The model.
    """
    common = {
        "source_url": "tests/benchmarks/gpu_decode.py",
        "date": datetime.now(UTC).date().isoformat(),
        "vendor_or_independent": "independent",
        "system": torch.cuda.get_device_name(),
        "chips": "1",
        "model": name,
        "precision": "bf16",
        "spec_decode": "no",
        "framework": "graph",
        "parallelism": "TP1",
    }

    def row(metric: str, users: int, context: str, timed: tuple[float, str] | None) -> Iterator[dict[str, str]]:
        if timed is not None:
            value, note = timed
            load = {"batch_or_concurrency": str(users), "context": context, "metric": metric}
            yield {**common, **load, "value": f"{value:.4f}", "note": note}

    for context in CONTEXTS:
        for users in BATCHES:
            timed = pass_ms(torch, spec, users, context, 1)
            yield from row("tpot_ms", users, f"{context - NEW_TOKENS // 2}/{NEW_TOKENS}", timed)
            for new in VERIFIED:
                yield from row("verify_ms", users, f"{context}/{new}", pass_ms(torch, spec, users, context, new))
    for prompt in PROMPTS:
        yield from row("ttft_ms", 1, f"{prompt}/1", pass_ms(torch, spec, 1, prompt, prompt))
    matrix = torch.randn(2 * spec.ffn_size, spec.hidden_size, device="cuda", dtype=torch.bfloat16)
    for tokens in (*BATCHES, *PROMPTS):
        x = torch.randn(tokens, spec.hidden_size, device="cuda", dtype=torch.bfloat16)
        timed = (graph_ms(torch, lambda x=x: x @ matrix.T), f"{tokens} x {spec.hidden_size} by {2 * spec.ffn_size}")
        yield from row("product_ms", tokens, f"{tokens}/1", timed)


def main(model: str, path: Path) -> str:
    """Measure a model, write the rows to a CSV file, and return a message about it.

    If the measurement is not possible, the message says why and no file is written.
    """
    try:
        import torch
    except ImportError:
        return "needs torch, which is not installed: pip install torch"
    if not torch.cuda.is_available():
        return "needs an NVIDIA GPU, which this machine does not have"
    spec = load_model(model, with_weights=False).spec
    if spec.experts is not None or spec.latent is not None or not spec.gated:
        return (
            f"{model}: only dense models with gated feed-forward blocks and a cache of keys and values "
            "can be measured, such as llama-3-8b"
        )
    with torch.inference_mode():
        measured = list(rows(torch, model, spec))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, TABLES["gpu"], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(measured)
    return f"{len(measured)} rows in {path}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    print(main(arguments.model, arguments.file))  # noqa: T201  # a script
