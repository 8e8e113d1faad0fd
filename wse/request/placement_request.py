"""PlacementRequest: what every request for a placement names: a model, wafers, a mapping, software, element types."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.quantity import TOKEN
from wse.number_formats import CODINGS, DTYPES
from wse.request import known_names
from wse.request.option import Option

Values = tuple[tuple[str, float], ...]

DEFAULT_MAPPING: Final = "auto"
DEFAULT_EXPERTS: Final = "auto"
DEFAULT_SCHEDULE: Final = "fused"
DEFAULT_SOFTWARE: Final = "production"

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

WaferName = Annotated[
    str | Path,
    Option(
        doc="A name of `wse wafers`, or a TOML file.",
        panel="Wafer and mapping",
        metavar="NAME|FILE",
        known_values=known_names.wafers,
    ),
]
WaferCount = Annotated[
    int | None,
    Option(
        doc="How many wafers; auto: the fewest that hold the model.",
        panel="Wafer and mapping",
        metavar="N|auto",
        none="auto",
    ),
]
ExpertPlacement = Annotated[
    str,
    Option(
        doc="Each expert over all columns of a region; over those of one of as many groups as are given, or of as few "
        "as leave little padding; or on columns of its own. auto: spread, or few where --mapping auto has no room so.",
        panel="Wafer and mapping",
        metavar="auto|spread|few|own|GROUPS",
        known_values=("auto", "spread", "few", "own"),
    ),
]
SoftwareName = Annotated[
    str | Path,
    Option(
        doc="The set of software costs: tuned, academic, ...",
        panel="Wafer and mapping",
        metavar="NAME|FILE",
        known_values=known_names.software,
    ),
]

MachineSettings = Annotated[
    tuple[str, ...],
    Option(
        doc="A number of the wafer or of software in place of its file's, or a factor of that, such as "
        "wafer.clock_hz=1.1GHz or wafer.clock_hz=x2; repeats.",
        panel="Wafer and mapping",
        metavar="wafer.KEY=VALUE|xFACTOR",
        flag="--set",
        repeats=True,
        read=str.strip,
        known_values=known_names.machine_numbers,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """A model and its placement, as requested. A field is None where its default is derived from the model.

    All commands share the defaults of these fields.

    ``wafer_values`` and ``software_values`` are numbers that take the place of those of ``wafer`` and ``software``, as
    those of ``settings`` do once a request is prepared.
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
    wafer: WaferName = DEFAULT_WAFER
    mesh: Annotated[
        str | None,
        Option(
            doc="Use a smaller mesh of the wafer's PEs. Default: the whole wafer.",
            panel="Wafer and mapping",
            metavar="ROWSxCOLS",
        ),
    ] = None
    wafers: WaferCount = None
    mapping: MappingName = DEFAULT_MAPPING
    region: Annotated[
        str | None,
        Option(doc="PEs of one region. Default: the mapping's choice.", panel="Wafer and mapping", metavar="ROWSxCOLS"),
    ] = None
    experts: ExpertPlacement = DEFAULT_EXPERTS
    schedule: Annotated[
        str,
        Option(
            doc="Steps of a layer as the released research decode runs them, rewritten wherever that takes fewer "
            "cycles, or with the rewrites that are named, separated by commas.",
            panel="Wafer and mapping",
            metavar="released|fused|REWRITES",
        ),
    ] = DEFAULT_SCHEDULE
    all_reduce: Annotated[
        str | None,
        Option(
            doc="The pattern of sums over lines that all PEs get: a reduce or all-reduce as `wse pattern` names them, "
            "or your own as FILE.py:NAME. Default: K-trees, fitted to their words.",
            panel="Wafer and mapping",
            metavar="PATTERN",
            known_values=known_names.patterns,
        ),
    ] = None
    software: SoftwareName = DEFAULT_SOFTWARE
    dtype: Annotated[
        str | None,
        Option(
            doc="float32, float16 or bfloat16 throughout; or weights of linear layers as int8 or fp8 (e4m3) with a "
            "scale an output, as int4 with a scale every 32 inputs, as mxfp4 (e2m1) with a power of two every 32 "
            "inputs. FP8 and MXFP4 checkpoints keep their own scales. Default: the type of the published weights.",
            panel="Model",
            metavar="TYPE",
            known_values=(*DTYPES, *CODINGS),
        ),
    ] = None
    activations: Annotated[
        str | None,
        Option(
            doc="All but quantised weights: float32, float16, bfloat16. Default: the model's own.",
            panel="Model",
            metavar="TYPE",
            known_values=DTYPES,
        ),
    ] = None
    accumulate: Annotated[
        str | None,
        Option(
            doc="Sums: float32 (default), or float16 with --dtype float16.",
            panel="Model",
            metavar="float32|float16",
        ),
    ] = None
    context: Annotated[
        int | None,
        Option(
            doc="Tokens that the KV cache has room for, such as 128k (131,072). Default: prompt + new tokens.",
            panel="Model",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    settings: MachineSettings = ()
    wafer_values: Values = ()
    software_values: Values = ()
    defects: Annotated[
        str | Path | None,
        Option(
            doc="Dead PEs and links: a CSV file of them, or the share of PEs that are dead, such as 1e-4.",
            panel="Wafer and mapping",
            metavar="FILE|RATE",
        ),
    ] = None
    defects_seed: Annotated[
        int, Option(doc="Seed of the dead PEs that a rate draws.", panel="Wafer and mapping", metavar="N")
    ] = 0

    def shorter_context_remedy(self, context: int, prompt_tokens: int) -> str:
        """The options that ask for no more than a context that is too short for what was asked."""
        return f"--context {context}"

    def fewer_users_remedy(self, users: int) -> str:
        """The remedy of fewer users, each of whom brings a prompt."""
        from wse.compiler.search.remedies import fewer_prompts

        return fewer_prompts(users)
