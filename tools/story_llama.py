"""A Llama decoder in torch, to train the bundled story model and to sample its training data."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The fields of a Llama `config.json` that determine shapes and arithmetic.

    The defaults are those of the bundled story model.
    """

    hidden_size: int = 128
    intermediate_size: int = 288
    num_hidden_layers: int = 5
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 16
    vocab_size: int = 1024
    max_position_embeddings: int = 1024
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0


Pair = tuple[Tensor, Tensor]
"""Two tensors: cosines and sines, each [position, head_dim / 2], or the keys and values of a layer.

Keys and values are [sequence, head, position, head_dim] each."""


class Attention(nn.Module):
    """Grouped-query attention with rotary embeddings.

    A rotated pair is an element of the first half of a head and its counterpart in the second.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        query, kv = (n * shape.head_dim for n in (shape.num_attention_heads, shape.num_key_value_heads))
        self.q_proj = nn.Linear(shape.hidden_size, query, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(query, shape.hidden_size, bias=False)

    def forward(self, x: Tensor, rope: Pair, cache: Pair | None, at: int) -> Tensor:
        """Return the output of attention, [rows, length, hidden_size].

        Args:
            x: Normalised hidden vectors, [rows, length, hidden_size].
            rope: Cosines and sines of these positions.
            cache: Keys and values of the layer, which are extended in place. None for no cache.
            at: Position of the first token.
        """
        rows, length, _ = x.shape
        q, k, v = (
            p(x).view(rows, length, -1, self.shape.head_dim).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, rope), rotate(k, rope)
        if cache is not None:
            cache[0][:, :, at : at + length], cache[1][:, :, at : at + length] = k, v
            k, v = cache[0][:, :, : at + length], cache[1][:, :, : at + length]
        groups = self.shape.num_attention_heads // self.shape.num_key_value_heads
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        with torch.autocast("cpu", enabled=False):  # on a CPU, this kernel is slower in bfloat16
            y = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=length > 1)
        return self.o_proj(y.to(x.dtype).transpose(1, 2).reshape(rows, length, -1))


class Mlp(nn.Module):
    """Feed-forward block with a gate: down(silu(gate(x)) * up(x)), called SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm decoder layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, rope: Pair, cache: Pair | None, at: int) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rope, cache, at)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """A Llama decoder that uses its embedding table as output head, too.

    Keys of `state_dict` are those of Hugging Face without the prefix "model.".
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.rope = rope_tables(shape)

    def forward(self, ids: Tensor, cache: list[Pair] | None = None, at: int = 0) -> Tensor:
        """Return the logits after each token.

        Args:
            ids: Token ids, [rows, length].
            cache: Keys and values of each layer, which are extended in place. None for no cache.
            at: Position of the first token.

        Returns:
            [rows, length, vocab_size].
        """
        rope = tuple(table[at : at + ids.shape[1]] for table in self.rope)
        x = self.embed_tokens(ids)
        for n, layer in enumerate(self.layers):
            x = layer(x, rope, None if cache is None else cache[n], at)
        return F.linear(self.norm(x), self.embed_tokens.weight)

    def empty_cache(self, rows: int) -> list[Pair]:
        """Return an empty KV cache for ``rows`` sequences: keys and values of each layer.

        It is in float32 for weights of any type, because attention of one query is faster in this type.
        """
        size = (rows, self.shape.num_key_value_heads, self.shape.max_position_embeddings, self.shape.head_dim)
        return [(torch.zeros(size), torch.zeros(size)) for _ in self.layers]


def rope_tables(shape: Shape) -> Pair:
    """Return the cosines and sines of rotary embeddings, each [position, head_dim / 2]."""
    frequency = shape.rope_theta ** (-torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
    angle = torch.outer(torch.arange(shape.max_position_embeddings).float(), frequency)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, rope: Pair) -> Tensor:
    """Apply rotary embeddings to x, [..., position, head_dim]. Return a tensor of the same type."""
    cos, sin = rope
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def fresh_model(shape: Shape, seed: int) -> Llama:
    """Return a model with normally distributed random weights.

    The standard deviation is 0.02 for embeddings and 1 / sqrt(inputs) for projections. For
    projections that add to the residual stream (o_proj, down_proj), it is divided by
    sqrt(2 * layers), as in GPT-2.
    """
    model = Llama(shape)
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            std = 0.02 if "embed" in name else weight.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std /= math.sqrt(2 * shape.num_hidden_layers)
            nn.init.normal_(weight, std=std)
    return model


def load_llama(folder: Path) -> Llama:
    """Load a Llama model with tied embeddings from a Hugging Face folder, with float32 weights."""
    config = json.loads((folder / "config.json").read_text())
    model = Llama(Shape(**{name: config[name] for name in Shape.__dataclass_fields__}))
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict({name.removeprefix("model."): w.float() for name, w in weights.items()})
    return model.eval()
