"""The form of a scenario file: its tables and keys, and what each may hold.

A list of values is an axis, as in a sweep: ``dtype = ["bfloat16", "int4"]`` asks for both; so is a list of tables. A
description is the remedy that a message gives for its key.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from wse.hardware.quantity import COUNT, TOKEN, whole_number
from wse.serving.tiers import FAST_TIMES, PLAIN_SPEED_TOKENS_PER_S
from wse.studies.options.layout import DEFAULT_EXPERTS, DEFAULT_SCHEDULE
from wse.studies.options.machine import DEFAULT_SOFTWARE
from wse.studies.options.placement import DEFAULT_MAPPING

Relation = Literal["about", "at_least", "at_most"]
Confidence = Literal["high", "medium", "low"]
Place = Literal["same", "wafer", "host"]

LONGEST_TEXT: Final = 4_096
MOST_VALUES: Final = 64
"""Values of an axis."""
MOST_TOKENS: Final = 2**24
MOST_USERS: Final = 1_000_000
MOST: Final = "most"
AUTO: Final = "auto"
DEFAULT: Final = "default"

T = TypeVar("T")

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


def _count(value: Any) -> Any:
    """Return the whole number of a text such as ``10k``; any other value unchanged."""
    number = whole_number(value, COUNT) if isinstance(value, str) else None
    return value if number is None else number


def _tokens(value: Any) -> Any:
    """Return the whole number of a text such as ``128k``, in which k is 1,024; any other value unchanged."""
    number = whole_number(value, TOKEN) if isinstance(value, str) else None
    return value if number is None else number


_Users = Annotated[int, BeforeValidator(_count), Field(ge=1, le=MOST_USERS)]
_Tokens = Annotated[int, BeforeValidator(_tokens), Field(ge=1, le=MOST_TOKENS)]
_Positive = Annotated[float, Field(gt=0, le=1e12)]
_Count = Annotated[int, BeforeValidator(_count), Field(ge=1, le=1_000_000)]


def _listed(value: Any) -> Any:
    """A value alone as a list of one."""
    return value if isinstance(value, list) else [value]


_Axis = Annotated[list[T], BeforeValidator(_listed), Field(min_length=1, max_length=MOST_VALUES)]


class Form(BaseModel):
    """A table of a scenario file."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class ModelForm(Form):
    """Models, each in each of some element types."""

    name: Annotated[_Axis[Text], Field(description="a model of wse models, a folder or file, or a list of them")]
    dtype: Annotated[
        _Axis[Text],
        Field(description='an element type such as "int8", "default" for the model\'s own, or a list of them'),
    ] = [DEFAULT]


class MachineForm(Form):
    """Wafers, or GPUs: one of ``wafer`` and ``gpu`` is given."""

    name: Annotated[Text | None, Field(description="a name that rows and published figures call it by")] = None
    wafer: Annotated[Text | None, Field(description="a name of wse wafers, or a TOML file")] = None
    wafers: Annotated[
        _Axis[Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"]],
        Field(description='a whole number of at least 1, "auto" for the fewest that hold the model, or a list of them'),
    ] = [AUTO]
    mesh: Annotated[Text | None, Field(description='rows and columns of PEs, such as "24x24"')] = None
    mapping: Annotated[Text, Field(description="a name of wse mappings, or a TOML file")] = DEFAULT_MAPPING
    schedule: Annotated[Text, Field(description='"fused", "released" or names of rewrites')] = DEFAULT_SCHEDULE
    software: Annotated[Text, Field(description="a software profile of wse wafers, or a TOML file")] = DEFAULT_SOFTWARE
    experts: Annotated[Text, Field(description="a placement of experts, as of --experts")] = DEFAULT_EXPERTS
    batch: Annotated[int | None, Field(ge=1, le=4_096, description="a whole number of users of a pass")] = None
    gpu: Annotated[Text | None, Field(description="a name of wse gpus, or a TOML file")] = None
    gpus: Annotated[
        _Axis[Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"]],
        Field(description='a whole number of at least 1, "auto" for the fewest that hold the model, or a list of them'),
    ] = [AUTO]
    stack: Annotated[Text | None, Field(description="a serving stack of wse gpus, or a TOML file")] = None
    parallelism: Annotated[Text | None, Field(description='"tensor", "experts" or "data"')] = None


class DraftForm(Form):
    """Speculation; without ``acceptance`` none, beside which others are set."""

    name: Annotated[Text | None, Field(description="a name that rows call it by")] = None
    acceptance: Annotated[
        Text | Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1, max_length=MOST_VALUES)] | None,
        Field(description="a name as of --draft, a TOML file, or shares from 0 to 1 by position, such as [0.8, 0.7]"),
    ] = None
    model: Annotated[Text | None, Field(description="a model with the same vocabulary, or nothing for a head")] = None
    place: Annotated[Place, Field(description='"same", "wafer" or "host"')] = "same"
    tokens: Annotated[
        int | None, Field(ge=1, le=MOST_VALUES, description="a whole number of drafted tokens, or nothing for the best")
    ] = None
    tree: Annotated[
        bool, Field(description="true for the best tree of drafted tokens, false for one after another")
    ] = False


class BatchForm(Form):
    """The batch policy: users that are served at the same time, and how those that arrive join."""

    users: Annotated[
        _Axis[_Users | Literal["most"]],
        Field(description='a whole number of users, "most" for as many as have room, or a list of them'),
    ] = [1]
    policy: Annotated[Literal["continuous", "static"] | None, Field(description='"continuous" or "static"')] = None
    wait_s: Annotated[_Positive | None, Field(description="a number of seconds above 0")] = None
    chunk: Annotated[_Tokens | None, Field(description="a whole number of tokens of at least 1")] = None


class ArrivalsForm(Form):
    """Requests that arrive over time, for ``wse serve-sim``."""

    process: Annotated[Text, Field(description='"poisson", "constant", "bursts" or a CSV file')] = "poisson"
    rate: Annotated[_Positive | None, Field(description="a number of requests a second above 0")] = None
    load: Annotated[_Positive | None, Field(description="a share above 0 of what can be served")] = None
    requests: Annotated[_Count | None, Field(description="a whole number from 1 to 1,000,000")] = None
    burst: Annotated[_Count, Field(description="a whole number of requests of at least 1")] = 8
    length_cv: Annotated[float, Field(ge=0, le=10, description="a number from 0 to 10")] = 0.0
    seed: Annotated[int, Field(ge=0, le=2**63, description="a whole number of at least 0")] = 0
    ttft_s: Annotated[_Positive | None, Field(description="a number of seconds above 0")] = None
    tpot_s: Annotated[_Positive | None, Field(description="a number of seconds above 0")] = None


class TiersForm(Form):
    """An ordinary tier of a service speed, and a fast one of a multiple of it on the same number of chips."""

    plain_speed: Annotated[
        _Axis[Annotated[float, Field(ge=0.1, le=1e6)]],
        Field(description="tokens/s of each user of the ordinary tier, from 0.1 to 1,000,000, or a list of them"),
    ] = [PLAIN_SPEED_TOKENS_PER_S]
    speed_up: Annotated[
        float, Field(gt=1, le=1_000, description="a number above 1: the speed of the fast tier over the ordinary one's")
    ] = FAST_TIMES
    drafts: Annotated[Literal["both", "fast"], Field(description='"both" or "fast": the tiers that have drafts')] = (
        "both"
    )


class PublishedForm(Form):
    """A published figure that predictions are set against."""

    figure: Annotated[Text, Field(description="the name of a figure")]
    value: Annotated[_Positive, Field(description="a number above 0")]
    unit: Annotated[Text | None, Field(description="the unit of the figure")] = None
    relation: Annotated[
        Relation,
        Field(description='"about", "at_least" or "at_most": how the true figure relates to what is published'),
    ] = "about"
    tolerance: Annotated[
        float, Field(ge=0, lt=1, description="a share from 0 to 1: how far off a prediction may be")
    ] = 0.25
    decides: Annotated[
        bool, Field(description="true where it rules combinations out, false where it is shown alone")
    ] = True
    confidence: Annotated[Confidence, Field(description='"high", "medium" or "low"')]
    reason: Annotated[Text, Field(description="a sentence on why no more confidence")]
    by: Annotated[Literal["vendor", "independent"], Field(description='"vendor" or "independent"')]
    date: Annotated[Text | None, Field(description='the date of the source as a text, such as "2026-02"')] = None
    source: Annotated[Text, Field(description="the address of the source")]
    machines: Annotated[
        _Axis[Text] | None, Field(description="names of machines that it is of, or nothing where it is of all")
    ] = None
    dtypes: Annotated[
        _Axis[Text] | None, Field(description="element types that it is of, or nothing where it is of all")
    ] = None
    drafts: Annotated[
        _Axis[Text] | None, Field(description='names of drafts that it is of, "none" without, or nothing for all')
    ] = None


class ScenarioForm(Form):
    """A scenario file."""

    title: Annotated[Text, Field(description="a title")]
    question: Annotated[Text, Field(description="the question that it answers")]
    models: Annotated[
        list[ModelForm], Field(min_length=1, max_length=MOST_VALUES, description="a list of tables [[models]]")
    ]
    prompt_len: Annotated[
        _Axis[_Tokens],
        Field(description="a whole number of tokens of at least 1, or a list of them"),
    ] = [1024]
    new_tokens: Annotated[_Tokens, Field(description="a whole number of tokens of at least 1")] = 1024
    machines: Annotated[
        list[MachineForm], Field(min_length=1, max_length=MOST_VALUES, description="a list of tables [[machines]]")
    ]
    drafts: Annotated[
        list[DraftForm], Field(min_length=1, max_length=MOST_VALUES, description="a list of tables [[drafts]]")
    ] = [DraftForm()]
    batch: Annotated[BatchForm, Field(description="a table [batch]")] = BatchForm()
    arrivals: Annotated[ArrivalsForm | None, Field(description="a table [arrivals]")] = None
    tiers: Annotated[TiersForm | None, Field(description="a table [tiers]")] = None
    prices: Annotated[dict[str, Any], Field(description="a table [prices] of numbers as in a file of --economics")] = {}
    published: Annotated[
        list[PublishedForm], Field(max_length=MOST_VALUES, description="a list of tables [[published]]")
    ] = []
