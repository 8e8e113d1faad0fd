"""Read the text model of a multimodal model, whose config has it in the table ``text_config``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import DTYPE_KEYS, finish, read_bos, read_dtype
from wse.models.spec import ModelSpec


def read_text_model(
    config: ConfigReader, read_text: Callable[[ConfigReader], ModelSpec], harmless_keys: frozenset[str]
) -> ModelSpec:
    """Read the config of a text model, or of a multimodal model that contains one.

    In the config of a multimodal model, the settings of the text model are in the table
    ``text_config``.

    Args:
        config: Reader of the keys in config.json.
        read_text: Function that reads the config of a text model.
        harmless_keys: Keys in ``text_config`` that may remain unread, because they do not affect
            the results.

    Raises:
        BadModel: A setting is missing, invalid or not supported, or a setting in ``text_config``
            contradicts the same setting outside of it.
    """
    text = config.table("text_config")
    if text is None:
        return read_text(config)
    dtype = read_dtype(config)
    spec = read_text(text)
    if dtype:
        for key in DTYPE_KEYS:
            text.require(key, (dtype,), f"contradicts {dtype!r} outside of text_config; keep one")
    config.require("tie_word_embeddings", (spec.tied_embedding,), "contradicts text_config; keep one")
    finish(text, harmless_keys)
    outer_start_id, outer_end_ids = read_bos(config, spec.vocab_size), config.ids("eos_token_id", spec.vocab_size)
    return replace(
        spec,
        dtype=spec.dtype or dtype,
        bos_token_id=outer_start_id if spec.bos_token_id is None else spec.bos_token_id,
        eos_token_ids=spec.eos_token_ids or outer_end_ids,
    )
