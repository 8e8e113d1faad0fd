"""Read config.json into a ModelSpec, and generation_config.json for its EOS tokens.

Model families are in the modules of `wse.models.families` and the entry points of users' packages.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from wse.errors import BadModel, UnknownName
from wse.files import read_object
from wse.models import families
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import HARMLESS_KEYS, finish, states_dtype
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.packing import read_packing
from wse.plugins import FAMILIES as GROUP
from wse.plugins import with_plugins, wrong_type


def _all_families() -> dict[str, Family]:
    """Return the model families bundled with wse, keyed by ``model_type``, sorted by name.

    Each module of `wse.models.families` defines one or several families in its constants.
    """
    names = [f"{families.__name__}.{module.name}" for module in pkgutil.iter_modules(families.__path__)]
    constants = [constant for name in names for constant in vars(importlib.import_module(name)).values()]
    bundled = [constant for constant in constants if isinstance(constant, Family)]
    bundled.sort(key=lambda family: family.model_types)
    return {model_type: family for family in bundled for model_type in family.model_types}


FAMILIES: Final[dict[str, Family]] = _all_families()
"""The bundled families, keyed by model_type."""
UNSTATED_DTYPE: Final = "bfloat16"
"""Element type assumed if a model's files do not specify one; most published weights use it."""
CONFIG_LIMIT_BYTES: Final = 4 * 2**20
GENERATION_LIMIT_BYTES: Final = 2**20


@cache
def known_families() -> Mapping[str, Family]:
    """Return all supported model families, including those from installed packages.

    The keys are the ``model_type`` values used in configs. A family may have several.

    Raises:
        BadInput: An installed package provides a family that cannot be used.
    """
    return with_plugins(GROUP, FAMILIES, _model_types)


def family_of(model_type: str, *, origin: str = "", remedy: str = "") -> Family:
    """Return the model family for the ``model_type`` of a config.

    Families from installed packages are loaded only if no bundled family has this ``model_type``.

    Args:
        model_type: Value of ``model_type`` in a config.
        origin: File that contains the model_type, for the error message.
        remedy: What the error message says instead of listing the families.

    Raises:
        UnknownName: No family has this model_type.
        BadInput: An installed package provides a family that cannot be used.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    if model_type not in known_families():
        raise UnknownName("architecture", model_type, known_families(), place=origin, remedy=remedy)
    return known_families()[model_type]


def _model_types(plugin: Any) -> tuple[str, ...]:
    """Return the ``model_type`` values that a plug-in supports.

    Raises:
        TypeError: The plug-in is not a Family.
    """
    if not isinstance(plugin, Family):
        raise wrong_type(plugin, "wse.models.family.Family")
    return plugin.model_types


def read_config(path: Path, *, unstated_dtype: str = UNSTATED_DTYPE, name: str | None = None) -> ModelSpec:
    """Return the model that a Hugging Face config.json describes.

    Args:
        path: Path of the file.
        unstated_dtype: Element type to use if the config does not specify one.
        name: Name of the model. By default, it is named after the file, without its suffix, or
            after the folder if the file is called config.json.

    Raises:
        UnknownName: No supported model family has the ``model_type`` of the config.
        BadModel: The file cannot be read, a value is missing or impossible, or a key requests
            unsupported mathematics.
    """
    folder = path.absolute().parent
    if name is None:
        name = path.stem if path.name != "config.json" else folder.name or folder.anchor
    return spec_of(ConfigReader(path, read_object(path, CONFIG_LIMIT_BYTES)), name, unstated_dtype)


@cache
def bundled_spec(name: str) -> ModelSpec:
    """Return the specification of a bundled configuration.

    Args:
        name: Key of `CONFIGURATIONS`.
    """
    return read_config(CONFIGURATIONS[name])


def config_states_dtype(path: Path) -> bool:
    """Return whether a config.json specifies the element type of the weights.

    Raises:
        BadModel: The file cannot be read.
    """
    return states_dtype(ConfigReader(path, read_object(path, CONFIG_LIMIT_BYTES)))


def spec_of(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the model that the keys of a config describe.

    Args:
        config: Reader of the keys. A key that the family of the model does not read is an error,
            unless it is known to have no effect on the results.
        name: Name of the model.
        unstated_dtype: Element type to use if the config does not specify one.

    Raises:
        UnknownName: No supported family has the ``model_type`` of the config.
        BadModel: A value is missing or impossible, or a key is not supported.
    """
    model_type = config.value("model_type")
    if not isinstance(model_type, str):
        family_names = ", ".join(sorted(known_families()))
        if model_type is None:
            raise BadModel(
                f"{config.path}: has no model_type, so it is not the config of a model; add it (known: {family_names})"
            )
        config.refuse("model_type", model_type, f"give one of {family_names}")
    is_known = model_type in FAMILIES or model_type in known_families()
    remedy = "" if is_known else _nearest_family(config)
    family = family_of(model_type, origin=str(config.path), remedy=remedy)
    spec = family.read(config)
    spec = replace(spec, name=name, family=family.model_types[0], dtype=spec.dtype or unstated_dtype)
    layers = {layer.experts: layer for layer in spec.layers}  # packing is the same in layers of one type
    packing = read_packing(config, family.tensors(replace(spec, layers=tuple(layers.values())), ()))
    finish(config, family.harmless_keys)
    return replace(spec, packing=packing)


def generation_end_ids(folder: Path, vocab_size: int) -> tuple[int, ...]:
    """Return the end-of-text token ids from the generation_config.json of a model folder.

    The result is () if the folder has no such file.

    Raises:
        BadModel: The file is damaged, or a token id is outside the vocabulary.
    """
    path = folder / "generation_config.json"
    if not path.exists():
        return ()
    return ConfigReader(path, read_object(path, GENERATION_LIMIT_BYTES)).ids("eos_token_id", vocab_size)


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


def _nearest_family(config: ConfigReader) -> str:
    """Find the supported family that is most similar to an unsupported model, for an error message.

    This is the family that accepts the config and ignores the fewest of its settings. Of several,
    it is the one with the most similar name, and then the one that differs least from Llama.

    Args:
        config: Reader of the model's config. If the model is multimodal, only its text model is
            compared.

    Returns:
        A phrase with the name of the family, and the reason why it cannot be used as it is.
    """
    model_type, text = str(config.value("model_type")), config.table("text_config") or config
    distinct_families = {family.model_types: family for family in known_families().values()}.values()
    candidates = [_candidate(text, family, model_type) for family in distinct_families]
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
