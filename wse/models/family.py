"""Family: what one file of `wse.models.families` has to say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wse.models.config_reader import ConfigReader
from wse.models.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTensor:
    """One tensor that a checkpoint of the model must hold."""

    name: str  # ours, e.g. layers.0.q
    file_name: str  # in the file, e.g. model.layers.0.self_attn.q_proj.weight
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How the files of one model family map to a `ModelSpec` and to our tensor names."""

    name: str
    read: Callable[[ConfigReader, str, str], ModelSpec]  # config, model name, dtype where none is stated
    tensors: Callable[[ModelSpec], Iterator[WantedTensor]]
    tied_copy: str  # file name of the head that a tied checkpoint may hold as a second copy
    harmless_tensors: re.Pattern[str]  # file names that carry nothing trained
