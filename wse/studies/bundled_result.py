"""Results of ``wse models``, ``wse wafers``, ``wse gpus`` and ``wse mappings``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from wse.reports.result import Doc, Result


@dataclass(frozen=True, kw_only=True)
class ActiveExperts(Result):
    """The number of experts in a layer, and how many of them process each token."""

    count: Annotated[int, Doc("Experts of a layer")]
    active: Annotated[int, Doc("Experts that a token goes through")]


@dataclass(frozen=True, kw_only=True)
class ConfigurationResult(Result):
    """A bundled model configuration: its sizes, source and licence. Its weights are not bundled."""

    name: Annotated[str, Doc("Its name")]
    family: Annotated[str, Doc("Its ``model_type``")]
    parameters: Annotated[int, Doc("Weights in all")]
    parameters_per_token: Annotated[int, Doc("Weights that a token goes through")]
    dtype: Annotated[str, Doc("Type of its published weights, the default of ``--dtype``")]
    layer_count: Annotated[int, Doc("Layers")]
    hidden_size: Annotated[int, Doc("Width of the residual stream", "element")]
    head_count: Annotated[int, Doc("Heads of queries")]
    kv_head_count: Annotated[int, Doc("Heads of keys and values")]
    head_size: Annotated[int, Doc("Width of a head", "element")]
    ffn_size: Annotated[int, Doc("Width of the feed-forward part", "element")]
    experts: Annotated[ActiveExperts | None, Doc("Of a mixture")] = None
    vocab_size: Annotated[int, Doc("Entries of the vocabulary")]
    kv_bytes_per_token: Annotated[int, Doc("KV cache of a token, with elements of 16 bits", "byte")]
    context_limit: Annotated[int, Doc("Tokens that it was made for")]
    source: Annotated[str, Doc("Where it comes from")]
    licence_of_weights: Annotated[str, Doc("Licence of the weights, which do not come along")]
    note: Annotated[str | None, Doc("What differs from the source")] = None


@dataclass(frozen=True, kw_only=True)
class ModelsResult(Result):
    """The result of ``wse models``: bundled models, configurations and readable model families."""

    models: Annotated[
        tuple[Mapping[str, Any], ...],
        Doc("Models with weights: all that their configurations say, `parameters` and the `folder`"),
    ]
    configurations: Annotated[tuple[ConfigurationResult, ...], Doc("Models without weights")]
    families: Annotated[tuple[str, ...], Doc("Each ``model_type`` that can be read")]


@dataclass(frozen=True, kw_only=True)
class NumberResult(Result):
    """A constant of a wafer, GPU or software profile, with its unit, evidence grade and source."""

    value: Annotated[float, Doc("The number, in `unit`")]
    unit: Annotated[str, Doc("Its unit")]
    grade: Annotated[str, Doc("How well it is known: M, V, D, I, R or U")]
    source: Annotated[str, Doc("Where it comes from")]
    range: Annotated[tuple[float, float] | None, Doc("The least and the most that it may be")] = None


Numbers = Mapping[str, NumberResult]


@dataclass(frozen=True, kw_only=True)
class WafersResult(Result):
    """The result of ``wse wafers``: the constants of all bundled wafers and software profiles."""

    announced: Annotated[tuple[str, ...], Doc("Wafers that nobody has measured")]
    wafers: Annotated[Mapping[str, Numbers], Doc("Numbers by wafer")]
    software: Annotated[Mapping[str, Numbers], Doc("Numbers by software profile")]


@dataclass(frozen=True, kw_only=True)
class MachineResult(Result):
    """The result of ``wse wafers NAME``: the constants of one wafer or software profile."""

    name: Annotated[str, Doc("Its name or file")]
    announced: Annotated[bool | None, Doc("Of a wafer: whether nobody has measured it")] = None
    numbers: Annotated[Numbers, Doc("Its numbers")]


@dataclass(frozen=True, kw_only=True)
class StackResult(Result):
    """A GPU serving stack, such as vLLM: its title, its constants and what they were fitted on."""

    title: Annotated[str, Doc("Which software and versions it stands for")]
    fitted_on: Annotated[str, Doc("The measurements that its constants were fitted on")]
    numbers: Annotated[Numbers, Doc("Its constants; one that differs by generation of GPUs has that behind a point")]


@dataclass(frozen=True, kw_only=True)
class GpusResult(Result):
    """The result of ``wse gpus``: the constants of all bundled GPUs and serving stacks."""

    gpus: Annotated[Mapping[str, Numbers], Doc("Numbers by GPU")]
    stacks: Annotated[Mapping[str, StackResult], Doc("Serving stacks by name")]


@dataclass(frozen=True, kw_only=True)
class GpuResult(Result):
    """The result of ``wse gpus NAME``: the constants of one GPU or serving stack."""

    name: Annotated[str, Doc("Its name or file")]
    title: Annotated[str | None, Doc("Of a stack: which software and versions it stands for")] = None
    fitted_on: Annotated[str | None, Doc("Of a stack: the measurements that its constants were fitted on")] = None
    numbers: Annotated[Numbers, Doc("Its numbers")]


@dataclass(frozen=True, kw_only=True)
class MappingResult(Result):
    """A mapping strategy: a way to place the layers of a model on the PEs of one or more wafers."""

    name: Annotated[str, Doc("The value of `--mapping`")]
    summary: Annotated[str, Doc("What it does")]
    source: Annotated[str, Doc("Where it comes from")]
    regions: Annotated[str, Doc("The regions that it makes, in a word")]


@dataclass(frozen=True, kw_only=True)
class MappingsResult(Result):
    """The result of ``wse mappings``: all mapping strategies that can be used."""

    mappings: Annotated[tuple[MappingResult, ...], Doc("The bundled ones first, then those of packages")]
