"""PlacementRequest: what every request for a placement names: a model, wafers, a mapping, element types."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from wse.hardware.quantity import TOKEN
from wse.studies.options import known_names
from wse.studies.options.element_types import TypeOptions
from wse.studies.options.layout import LayoutOptions
from wse.studies.options.machine import MachineOptions
from wse.studies.options.option import Option, OptionsOf

DEFAULT_MAPPING: Final = "auto"

MappingName = Annotated[
    str | Path,
    Option(
        doc="A name of `wse mappings`; a TOML file that lists regions; or a strategy of your own as FILE.py:NAME, a "
        "file that is run as any program that you start.",
        panel="Wafer and mapping",
        metavar="NAME|FILE|FILE.py:NAME",
        known_values=known_names.mappings,
    ),
]
WaferCount = Annotated[
    int | None,
    Option(
        doc="The number of wafers; auto: the fewest that hold the model.",
        panel="Wafer and mapping",
        metavar="N|auto",
        none="auto",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """A model and its placement, as requested. A field is None where its default is derived from the model.

    All commands share the defaults of these fields.
    """

    model: Annotated[
        str | Path,
        Option(
            doc="A Hugging Face model folder, a GGUF file, a config.json, or a name of `wse models`.",
            panel="Model",
            metavar="MODEL",
            known_values=known_names.models,
            positional=True,
            required=True,
        ),
    ] = "story"
    types: Annotated[TypeOptions, OptionsOf()] = field(default_factory=TypeOptions)
    context: Annotated[
        int | None,
        Option(
            doc="Tokens that the KV cache has room for, such as 128k (131,072). Default: prompt + new tokens.",
            panel="Model",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    machine: Annotated[MachineOptions, OptionsOf()] = field(default_factory=MachineOptions)
    wafers: WaferCount = None
    mapping: MappingName = DEFAULT_MAPPING
    layout: Annotated[LayoutOptions, OptionsOf()] = field(default_factory=LayoutOptions)

    def shorter_context_remedy(self, context: int, prompt_tokens: int) -> str:
        """Return the options that ask for no more than a context that is too short for what was asked."""
        return f"--context {context}"

    def fewer_users_remedy(self, users: int) -> str:
        """Return the remedy of fewer users, each of whom brings a prompt."""
        from wse.compiler.search.remedies import fewer_prompts

        return fewer_prompts(users)
