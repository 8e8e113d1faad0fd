"""Find the supported model family that is nearest to a config of an unknown one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import MISSING, fields
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

from wse.errors import BadModel
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import HARMLESS_KEYS
from wse.models.family import Family

NAMES_OF_FAMILY: Final = ("model_type", "architectures", "auto_map")
MAX_SHOWN: Final = 8
"""Maximum number of settings that a message lists."""
MIN_SIMILARITY: Final = 0.6
"""Minimum similarity of the spelling of two names that are considered similar."""


class _Candidate(NamedTuple):
    """Match between a supported model family and the config of an unsupported model.

    Attributes:
        refusal: Reason why the supported family rejects the config; "" if it accepts the config.
        settings: Settings in the config that the supported family ignores, as ``key = value``.
        dissimilarity: Difference in spelling between the names of the two families, from 0 (equal)
            to 1. It is 1 for all names that are not similar.
        traits: Number of fields in which the resulting `ModelSpec` differs from a Llama model.
        name: Name of the supported family.
    """

    refusal: str
    settings: list[str]
    dissimilarity: float
    traits: int
    name: str


def nearest_family(config: ConfigReader, families: Iterable[Family]) -> str:
    """Find the supported family that is most similar to an unsupported model, for an error message.

    This is the family that accepts the config and ignores the fewest of its settings. Of several,
    it is the one with the most similar name, and then the one that differs least from Llama.

    Args:
        config: Reader of the model's config. If the model is multimodal, only its text model is
            compared.
        families: The supported families.

    Returns:
        A phrase with the name of the family, and the reason why it cannot be used as it is.
    """
    model_type, text = str(config.value("model_type")), config.table("text_config") or config
    candidates = [_candidate(text, family, model_type) for family in families]
    best = min(
        candidates,
        key=lambda item: (bool(item.refusal), len(item.settings), item.dissimilarity, item.traits, *_order(item.name)),
    )
    if best.refusal:
        best = min(candidates, key=lambda item: (item.dissimilarity, *_order(item.name)))
        return f"the nearest family is {best.name!r}, which refuses this config: {best.refusal}"
    if not best.settings:
        return f"the nearest family is {best.name!r}; set model_type to it if its mathematics is the same"
    ending = f" and {len(best.settings) - MAX_SHOWN} more" if len(best.settings) > MAX_SHOWN else ""
    settings = ", ".join(best.settings[:MAX_SHOWN])
    return f"the nearest family is {best.name!r}, in which these settings are missing: {settings}{ending}"


def _order(name: str) -> tuple[bool, str]:
    """Return a sort key that prefers Llama to other families, and orders these by name.

    It decides between families that match an unsupported model equally well.
    """
    return name != "llama", name


def _candidate(config: ConfigReader, family: Family, model_type: str) -> _Candidate:
    """Read the config of an unsupported model as if it belonged to a supported family.

    Settings with a value such as false, 0 or null are not reported as ignored, because they only
    disable a feature.

    Args:
        config: Reader of the config.
        family: The supported family.
        model_type: ``model_type`` in the config, which wse does not support.

    Returns:
        How well the family matches the config.
    """
    copy, name = config.unread_copy(NAMES_OF_FAMILY), family.model_types[0]
    ratio = SequenceMatcher(None, model_type, name).ratio()
    dissimilarity = 1.0 - ratio if ratio >= MIN_SIMILARITY else 1.0
    try:
        spec = family.read(copy)
    except BadModel as error:
        return _Candidate(str(error).removeprefix(f"{config.path}: "), [], dissimilarity, 0, name)
    keys = copy.unread_keys(HARMLESS_KEYS | family.harmless_keys)
    settings = [f"{key} = {_value_text(copy.value(key))}" for key in keys if copy.value(key)]
    traits = sum(field.default is not MISSING and getattr(spec, field.name) != field.default for field in fields(spec))
    return _Candidate("", settings, dissimilarity, traits, name)


def _value_text(value: Any) -> str:
    """Format a value of a config. A table is shown as ``{...}`` and a list as ``[...]``."""
    if isinstance(value, Collection) and not isinstance(value, str):
        return "{...}" if isinstance(value, dict) else "[...]"
    return repr(value)
