"""config.json to ModelSpec, and generation_config.json beside it.

A family is one file in `wse.models.families`, found by being there, or an entry point of a package of a user's own.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from wse.errors import BadModel, UnknownName
from wse.models import families
from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.decoder_config import finish, states_dtype
from wse.models.configs.json_file import read_object
from wse.models.family import Family
from wse.models.spec import ModelSpec
from wse.models.tensors.packing import read_packing
from wse.plugins import FAMILIES as GROUP
from wse.plugins import with_plugins


def _all_families() -> dict[str, Family]:
    """Return the FAMILY of every module of `wse.models.families`, by model_type."""
    modules = sorted(module.name for module in pkgutil.iter_modules(families.__path__))
    known: list[Family] = [importlib.import_module(f"{families.__name__}.{module}").FAMILY for module in modules]
    return {model_type: family for family in known for model_type in family.model_types}


FAMILIES: Final[dict[str, Family]] = _all_families()
"""The bundled families, by model_type."""
UNSTATED_DTYPE: Final = "bfloat16"
"""Element type of a model that is known by a config alone which names none: that of most published weights."""
CONFIG_LIMIT_BYTES: Final = 4 * 2**20
GENERATION_LIMIT_BYTES: Final = 2**20


@cache
def known_families() -> Mapping[str, Family]:
    """Return families by model_type, including those of users' packages.

    Raises:
        BadInput: a package brings one that cannot be used.
    """
    return with_plugins(GROUP, FAMILIES, _model_types)


def family_of(model_type: str, *, where: str = "") -> Family:
    """Return the family of a model_type. Users' packages are searched for families that are not bundled.

    Raises:
        UnknownName: there is none; ``where`` the model_type stands.
        BadInput: a package brings one that cannot be used.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    if model_type not in known_families():
        raise UnknownName("architecture", model_type, known_families(), where=where)
    return known_families()[model_type]


def _model_types(thing: Any) -> tuple[str, ...]:
    if not isinstance(thing, Family):
        message = f"a {type(thing).__name__} is no wse.models.family.Family"
        raise TypeError(message)
    return thing.model_types


def read_config(path: Path, *, unstated_dtype: str = UNSTATED_DTYPE) -> ModelSpec:
    """Return the model that a Hugging Face config.json describes.

    The name of the model is that of the folder, or of the file where that is not called config.json.

    Args:
        path: The file.
        unstated_dtype: The element type of a config that names none.

    Raises:
        UnknownName: the architecture is not one of `known_families`.
        BadModel: the file cannot be read, a value is missing or impossible, or a key asks for
            mathematics that is not supported.
    """
    folder = path.absolute().parent
    name = path.stem if path.name != "config.json" else folder.name or folder.anchor
    return spec_of(ConfigReader(path, read_object(path, CONFIG_LIMIT_BYTES)), name, unstated_dtype)


def config_states_dtype(path: Path) -> bool:
    """Return whether a config.json names an element type.

    Raises BadModel for a file that cannot be read.
    """
    return states_dtype(ConfigReader(path, read_object(path, CONFIG_LIMIT_BYTES)))


def spec_of(config: ConfigReader, name: str, unstated_dtype: str) -> ModelSpec:
    """Return the model ``name`` that the keys of a config describe.

    Errors are those of `read_config`.
    """
    kind = config.value("model_type")
    if not isinstance(kind, str):
        family_names = ", ".join(sorted(known_families()))
        if kind is None:
            msg = f"{config.path}: has no model_type, so is no model's config; add it (known: {family_names})"
            raise BadModel(msg)
        config.refuse("model_type", kind, f"give one of {family_names}")
    family = family_of(kind, where=str(config.path))
    spec = family.read(config, name, unstated_dtype)
    layers = {layer.experts: layer for layer in spec.layers}  # one of each kind
    packing = read_packing(config, family.tensors(replace(spec, layers=tuple(layers.values())), ()))
    finish(config, family.harmless_keys)
    return replace(spec, packing=packing)


def generation_end_ids(folder: Path, vocab_size: int) -> tuple[int, ...]:
    """Return ``eos_token_id`` of the generation config in a model folder; empty without one.

    Raises:
        BadModel: the file is damaged, or an id is outside the vocabulary.
    """
    path = folder / "generation_config.json"
    if not path.exists():
        return ()
    return ConfigReader(path, read_object(path, GENERATION_LIMIT_BYTES)).ids("eos_token_id", vocab_size)
