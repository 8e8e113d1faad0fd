"""PlacementRequest: model, wafers, mapping and types, which all placement requests share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Final

from wse.hardware.generations import DEFAULT_WAFER, VENDOR_LINK
from wse.hardware.quantity import TOKEN
from wse.number_formats import CODINGS, DTYPES
from wse.option import Option, Panel
from wse.studies.options import known_names
from wse.studies.options.option import OptionsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeOptions:
    """Options for the element types used to compute a model, such as float16 or int8.

    None means that the default depends on the model.

    Attributes:
        dtype: Element type of weights: float32, float16 or bfloat16; or, for linear layers, int8 or
            fp8 (e4m3) with a scale per output, int4 with a scale per 32 inputs, or mxfp4 (e2m1)
            with a power of two per 32 inputs. FP8, MXFP4 and INT4 checkpoints keep their own
            scales. Default: the type of the published weights.
        activations: Element type of activations, KV caches and all other data except quantised
            weights: float32, float16 or bfloat16. Default: the model's own.
        accumulate: Element type of sums: float32 (default), or float16 with --dtype float16.
    """

    PANEL: ClassVar[Panel] = "Model"

    dtype: Annotated[str | None, Option(metavar="TYPE", known_values=(*DTYPES, *CODINGS))] = None
    activations: Annotated[str | None, Option(metavar="TYPE", known_values=DTYPES)] = None
    accumulate: Annotated[str | None, Option(metavar="float32|float16")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """Options for the layout of a model on the PEs of wafers.

    They set the size of PE regions, the placement of experts, the order of steps in a layer, and
    the all-reduce pattern.

    Attributes:
        region: Size of a region in PEs. Default: chosen by the mapping.
        experts: Store each expert on all columns of a region (distributed), on columns of its own
            (dedicated), or on one of several groups of columns: GROUPS of them, or the fewest with
            little padding (grouped). auto: distributed, or grouped if --mapping auto finds that
            this is faster or that distributed does not fit.
        place_experts: Divide experts over groups of columns so that experts that tokens often
            select together are on different groups, according to the selections in a trace of `wse
            run` or a CSV file (token,layer,experts). Default: by index.
        schedule: Run the steps of a layer as in the released research decode (baseline), with every
            rewrite that saves cycles (optimized), or with named rewrites, separated by commas.
        all_reduce: Pattern of all-reduces over lines of PEs: a reduce or all-reduce of `wse
            pattern`, or your own as FILE.py:NAME. Default: K-trees, fitted to the number of words.
    """

    PANEL: ClassVar[Panel] = "Wafer and mapping"

    region: Annotated[str | None, Option(metavar="ROWSxCOLS")] = None
    experts: Annotated[
        str,
        Option(
            metavar="auto|distributed|grouped|dedicated|GROUPS",
            known_values=("auto", "distributed", "grouped", "dedicated"),
        ),
    ] = "auto"
    place_experts: Annotated[str | Path | None, Option(metavar="FILE")] = None
    schedule: Annotated[str, Option(metavar="baseline|optimized|REWRITES")] = "optimized"
    all_reduce: Annotated[str | None, Option(metavar="PATTERN", known_values=known_names.patterns)] = None


Values = tuple[tuple[str, float], ...]

DEFAULT_SOFTWARE: Final = "production"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """Options for a wafer, its software costs, and its dead PEs.

    When a request is prepared, ``settings`` are converted to ``wafer_values`` and
    ``software_values``, and the numbers of ``link`` are added to ``wafer_values``, unless these
    already contain others.

    Attributes:
        wafer: A name of `wse wafers`, or a TOML file.
        software: Software profile, which sets the costs of software: tuned, academic, ..., or a
            TOML file.
        wafer_values: (name, number) pairs that override numbers of ``wafer``.
        software_values: (name, number) pairs that override numbers of ``software``.
        link: Link between wafers: vendor (that of the wafer's file), sdk-host (through the host
            streams of the SDK), or a TOML file with wafer_link_bytes_per_s and wafer_link_latency_s.
        settings: Replace a number of the wafer or software profile, or multiply it by a factor,
            such as wafer.clock_hz=1.1GHz or wafer.clock_hz=x2; repeats.
        mesh: Use a smaller mesh of the wafer's PEs. Default: the whole wafer; for `run`, the
            smallest square on which the model fits, or the mesh of the listed regions.
        defects: Dead PEs and links: a CSV file that lists them, or the probability that a PE is
            dead, such as 1e-4.
        defects_seed: Random seed that selects the dead PEs.
    """

    PANEL: ClassVar[Panel] = "Wafer and mapping"

    wafer: Annotated[str | Path, Option(metavar="NAME|FILE", known_values=known_names.wafers)] = DEFAULT_WAFER
    mesh: Annotated[str | None, Option(metavar="ROWSxCOLS")] = None
    software: Annotated[str | Path, Option(metavar="NAME|FILE", known_values=known_names.software)] = DEFAULT_SOFTWARE
    link: Annotated[str | Path, Option(metavar="NAME|FILE", known_values=known_names.links)] = VENDOR_LINK
    settings: Annotated[
        tuple[str, ...],
        Option(
            metavar="wafer.KEY=VALUE|xFACTOR",
            flag="--set",
            repeats=True,
            read=str.strip,
            known_values=known_names.machine_numbers,
        ),
    ] = ()
    wafer_values: Values = ()
    software_values: Values = ()
    defects: Annotated[str | Path | None, Option(metavar="FILE|RATE")] = None
    defects_seed: Annotated[int, Option()] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """Options for a model and its placement on wafers, shared by all commands that place models.

    None means that the default depends on the model.

    Attributes:
        model: A Hugging Face model folder, a GGUF file, a config.json, a name of `wse models`, or
            ORG/NAME[@REVISION] of a repository on the Hugging Face hub.
        context: Longest sequence that must fit, in tokens, such as 128k (131,072). Default: prompt
            + new tokens; for a file of requests, the longest one. The number of users that fit is
            computed for KV caches of prompt + new tokens.
        wafers: Number of wafers; auto: the fewest on which the model and the KV caches of all users
            fit in some layout.
        mapping: A name of `wse mappings`; a TOML file that lists regions; or your own strategy as
            FILE.py:NAME. FILE.py is executed as a program, so use only files that you trust.
    """

    model: Annotated[
        str | Path,
        Option(panel="Model", metavar="MODEL", known_values=known_names.models, positional=True, required=True),
    ] = "story"
    types: Annotated[TypeOptions, OptionsOf()] = field(default_factory=TypeOptions)
    context: Annotated[int | None, Option(panel="Model", unit=TOKEN)] = None
    machine: Annotated[MachineOptions, OptionsOf()] = field(default_factory=MachineOptions)
    wafers: Annotated[int | None, Option(panel="Wafer and mapping", none="auto")] = None
    mapping: Annotated[
        str | Path,
        Option(panel="Wafer and mapping", metavar="NAME|FILE|FILE.py:NAME", known_values=known_names.mappings),
    ] = "auto"
    layout: Annotated[LayoutOptions, OptionsOf()] = field(default_factory=LayoutOptions)

    def shorter_context_remedy(self, context: int, prompt_tokens: int) -> str:
        """Return options for a shorter context, such as ``--context 4096``, for error messages.

        Args:
            context: Longest context that fits, in tokens.
            prompt_tokens: Length of the prompt in tokens. Subclasses use it to suggest fewer new
                tokens as well.
        """
        return f"--context {context}"

    def fewer_users_remedy(self, users: int) -> str:
        """Return a phrase that suggests fewer users, such as "at most 4 prompts", for an error."""
        from wse.compiler.search.remedies import fewer_prompts

        return fewer_prompts(users)
