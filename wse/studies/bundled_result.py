"""Results of ``wse models``, ``wse wafers``, ``wse gpus`` and ``wse mappings``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from wse.reports.result import Doc, Result


class ActiveExperts(Result):
    """The number of experts in a layer, and the number of experts that process each token."""

    count: Annotated[int, Doc("Experts per layer")]
    active: Annotated[int, Doc("Experts that process each token")]


class ConfigurationResult(Result):
    """A bundled model configuration: its sizes, source and licence. Its weights are not bundled."""

    name: Annotated[str, Doc("Name of the configuration")]
    family: Annotated[str, Doc("``model_type`` of the configuration")]
    parameters: Annotated[int, Doc("Total number of weights")]
    parameters_per_token: Annotated[int, Doc("Weights that are used for a token")]
    dtype: Annotated[str, Doc("Element type of the published weights, the default of ``--dtype``")]
    layer_count: Annotated[int, Doc("Number of layers")]
    hidden_size: Annotated[int, Doc("Width of the residual stream", "element")]
    head_count: Annotated[int, Doc("Query heads")]
    kv_head_count: Annotated[int, Doc("Key and value heads")]
    head_size: Annotated[int, Doc("Width of a head", "element")]
    ffn_size: Annotated[int, Doc("Width of the feed-forward part", "element")]
    experts: Annotated[ActiveExperts | None, Doc("Experts, for a mixture-of-experts model")] = None
    vocab_size: Annotated[int, Doc("Tokens in the vocabulary")]
    kv_bytes_per_token: Annotated[int, Doc("KV-cache bytes per token, with 16-bit elements", "byte")]
    context_limit: Annotated[int, Doc("Maximum context in tokens")]
    source: Annotated[str, Doc("Where the configuration was published")]
    licence_of_weights: Annotated[str, Doc("Licence of the weights, which are not bundled")]
    note: Annotated[str | None, Doc("Differences from the source")] = None


class ModelsResult(Result):
    """The result of ``wse models``: bundled models, configurations and readable model families."""

    models: Annotated[
        tuple[Mapping[str, Any], ...],
        Doc("Models with weights: their configuration, `parameters` and `folder`"),
    ]
    configurations: Annotated[tuple[ConfigurationResult, ...], Doc("Models without weights")]
    families: Annotated[tuple[str, ...], Doc("Each ``model_type`` that can be read")]


class NumberResult(Result):
    """A constant of a wafer, a GPU or their software, with its unit and source.

    The grade states how reliable the value is, from M (measured) to U (specified by the user).
    """

    value: Annotated[float, Doc("Value, in `unit`")]
    unit: Annotated[str, Doc("Unit of the value")]
    grade: Annotated[str, Doc("Evidence grade: M, V, D, I, R or U")]
    source: Annotated[str, Doc("Source of the value")]
    range: Annotated[tuple[float, float] | None, Doc("Minimum and maximum")] = None
    range_source: Annotated[str | None, Doc("Reason for the range; absent if `source` contains it")] = None


Numbers = Mapping[str, NumberResult]


class WafersResult(Result):
    """The result of ``wse wafers``: the constants of all bundled wafers and software profiles.

    A software profile lists the costs of a wafer's software, such as cycles per message.
    """

    announced: Annotated[tuple[str, ...], Doc("Wafers that are announced but not measured")]
    wafers: Annotated[Mapping[str, Numbers], Doc("Numbers of each wafer")]
    software: Annotated[Mapping[str, Numbers], Doc("Numbers of each software profile")]


class MachineResult(Result):
    """The result of ``wse wafers NAME``: the constants of one wafer or software profile."""

    name: Annotated[str, Doc("Name or file")]
    announced: Annotated[bool | None, Doc("For a wafer: whether it is announced but not measured")] = None
    numbers: Annotated[Numbers, Doc("Constants; keys are names")]


class StackResult(Result):
    """A GPU serving stack (software such as vLLM): its constants, and what they were fitted to."""

    title: Annotated[str, Doc("Software and versions")]
    fitted_on: Annotated[str, Doc("Measurements on which the constants were fitted")]
    numbers: Annotated[Numbers, Doc("Constants by name; `name.generation` has the value for one generation of GPUs")]


class GpusResult(Result):
    """The result of ``wse gpus``: the constants of all bundled GPUs and serving stacks."""

    gpus: Annotated[Mapping[str, Numbers], Doc("Numbers by GPU")]
    stacks: Annotated[Mapping[str, StackResult], Doc("Serving stacks; keys are names")]


class GpuResult(Result):
    """The result of ``wse gpus NAME``: the constants of one GPU or serving stack."""

    name: Annotated[str, Doc("Name or file")]
    title: Annotated[str | None, Doc("For a stack: software and versions")] = None
    fitted_on: Annotated[str | None, Doc("For a stack: measurements on which the constants were fitted")] = None
    numbers: Annotated[Numbers, Doc("Constants; keys are names")]


class MappingResult(Result):
    """A mapping strategy: a method of placing a model's layers on the PEs of one or more wafers."""

    name: Annotated[str, Doc("The value of `--mapping`")]
    summary: Annotated[str, Doc("What it does")]
    source: Annotated[str, Doc("Where the strategy was published")]
    regions: Annotated[str, Doc("Type of regions, in one word")]


class MappingsResult(Result):
    """The result of ``wse mappings``: all available mapping strategies."""

    mappings: Annotated[tuple[MappingResult, ...], Doc("Bundled strategies first, then those of other packages")]
