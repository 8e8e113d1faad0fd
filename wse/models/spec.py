"""ModelSpec: what the compiler needs to know of a transformer, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The shape and the mathematics of one decoder-only transformer.

    Sizes count elements. ``dtype`` is the checkpoint's own element type (``float32``, ``float16`` or
    ``bfloat16``). Query head h shares the keys and values of kv head ``h // queries_per_kv``.
    Rotary pairs are (f, f + head_size / 2), the Hugging Face order.
    """

    name: str
    family: str
    layer_count: int
    hidden_size: int
    head_count: int
    kv_head_count: int
    head_size: int
    ffn_size: int
    vocab_size: int
    context_limit: int
    norm_eps: float
    rope_base: float
    tied_embedding: bool
    dtype: str
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]

    @property
    def queries_per_kv(self) -> int:
        """Query heads that share one kv head."""
        return self.head_count // self.kv_head_count

    @property
    def parameter_count(self) -> int:
        """Trained values; a tied embedding counts once."""
        attention = self.hidden_size * self.head_size * 2 * (self.head_count + self.kv_head_count)
        layer = attention + 3 * self.hidden_size * self.ffn_size + 2 * self.hidden_size
        tables = self.vocab_size * self.hidden_size * (1 if self.tied_embedding else 2)
        return self.layer_count * layer + tables + self.hidden_size
