"""PlacementRequest: model, wafers, mapping and types, which all placement requests share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from wse.hardware.quantity import TOKEN
from wse.studies.options import known_names
from wse.studies.options.groups.element_types import TypeOptions
from wse.studies.options.groups.layout import LayoutOptions
from wse.studies.options.groups.machine import MachineOptions
from wse.studies.options.option import Option, OptionsOf

DEFAULT_MAPPING: Final = "auto"

MappingName = Annotated[
    str | Path,
    Option(
        doc="A name of `wse mappings`; a TOML file that lists regions; or your own strategy as FILE.py:NAME. "
        "FILE.py is executed as a program, so use only files that you trust.",
        panel="Wafer and mapping",
        metavar="NAME|FILE|FILE.py:NAME",
        known_values=known_names.mappings,
    ),
]
WaferCount = Annotated[
    int | None,
    Option(
        doc="Number of wafers; auto: the fewest on which the model fits.",
        panel="Wafer and mapping",
        metavar="N|auto",
        none="auto",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """Options for a model and its placement on wafers, shared by all commands that place models.

    None means that the default depends on the model.
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
            doc="Longest sequence that must fit, in tokens, such as 128k (131,072). Default: prompt + new tokens. The "
            "users that fit are counted for prompt + new tokens.",
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
        """Return options that request a shorter context, such as ``--context 4096``.

        Args:
            context: Longest context that fits, in tokens.
            prompt_tokens: Length of the prompt in tokens. Subclasses use it to suggest fewer new
                tokens as well.
        """
        return f"--context {context}"

    def fewer_users_remedy(self, users: int) -> str:
        """Return a remedy with fewer users, such as "at most 4 prompts", for error messages."""
        from wse.compiler.search.remedies import fewer_prompts

        return fewer_prompts(users)
