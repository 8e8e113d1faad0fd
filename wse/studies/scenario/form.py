"""Schema of a scenario file without its settings: question, tiers, prices and published figures.

The description of a field completes error messages: "give" followed by the description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from wse.errors import BadInput, UnknownName
from wse.files import short_repr
from wse.hardware.quantity import COUNT, read_quantity
from wse.serving.goal import FAST_TIMES, PLAIN_SPEED_TOKENS_PER_S

Relation = Literal["about", "at_least", "at_most"]
Agreement = Literal["consistent", "near", "ruled out"]

WORDS: Final[dict[Relation, str]] = {"about": "", "at_least": "at least ", "at_most": "at most "}
CONSISTENT: Final = "consistent"
NEAR: Final = "near"
RULED_OUT: Final = "ruled out"
NO_DRAFTS: Final = "none"

MOST_VALUES: Final = 64
"""Maximum number of values per axis, and of tables with the same name."""

T = TypeVar("T")
Text = Annotated[str, Field(min_length=1, max_length=4_096)]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """Return the items of a list, or any other value as the only item."""
    return tuple(value) if isinstance(value, list) else (value,)


_Axis = Annotated[tuple[T, ...], BeforeValidator(_as_tuple), Field(min_length=1, max_length=MOST_VALUES)]


def _as_number(value: Any) -> Any:
    """Convert a string such as ``1k`` to a number; other values are returned unchanged."""
    number = read_quantity(value, COUNT) if isinstance(value, str) else None
    return value if number is None else number


_Number = Annotated[float, BeforeValidator(_as_number)]
_Tables = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_VALUES)]


class Form(BaseModel):
    """Base class for the tables of a scenario file, which checks the types and ranges of values."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @classmethod
    def read(cls, table: Mapping[str, Any], place: str) -> Self:
        """Check the types and ranges of a table and convert it to this class.

        Args:
            table: The table as read from a file.
            place: Name of the file and the table, used as a prefix of error messages.

        Raises:
            UnknownName: A key is unknown. The message suggests the closest match.
            BadInput: A value is missing, has the wrong type, or is out of range. The message states
                what is expected.
        """
        try:
            return cls.model_validate(dict(table))
        except ValidationError as error:
            faults = error.errors(include_url=False)
            unknown_key = next((fault for fault in faults if fault["type"] == "extra_forbidden"), None)
            if unknown_key is not None:
                raise UnknownName("key", str(unknown_key["loc"][-1]), cls.model_fields, place=place) from error
            key = str(faults[0]["loc"][0])
            remedy = cls.model_fields[key].description
            message = f"{place}: has no {key}; give {remedy}"
            if key in table:
                message = f"{place}: {key} = {short_repr(table[key])}: give {remedy}"
            raise BadInput(message) from error


class TiersForm(Form):
    """The table ``[tiers]`` of a scenario file, which describes two service tiers.

    The plain tier promises each user a given speed, and the fast tier a multiple of it. Both tiers
    run on the same number of chips.
    """

    plain_speed: Annotated[
        _Axis[Annotated[_Number, Field(ge=0.1, le=1e6)]],
        Field(description="tokens/s of each user of the plain tier, from 0.1 to 1,000,000, or a list of them"),
    ] = (PLAIN_SPEED_TOKENS_PER_S,)
    speed_up: Annotated[
        _Number,
        Field(gt=1, le=1_000, description="a number above 1: the speed of the fast tier divided by the plain one's"),
    ] = FAST_TIMES
    drafts: Annotated[Literal["both", "fast"], Field(description='"both" or "fast": the tiers that have drafts')] = (
        "both"
    )


class PublishedForm(Form):
    """A table ``[[published]]`` of a scenario file: a figure to compare with predictions."""

    figure: Annotated[Text, Field(description="the name of a figure")]
    value: Annotated[_Number, Field(gt=0, le=1e12, description="a number above 0")]
    unit: Annotated[Text | None, Field(description="the unit of the figure")] = None
    relation: Annotated[
        Relation,
        Field(description='"about", "at_least" or "at_most": how the true figure relates to what is published'),
    ] = "about"
    tolerance: Annotated[
        float, Field(ge=0, lt=1, description="a fraction from 0 to 1: the relative error that a prediction may have")
    ] = 0.25
    decides: Annotated[
        bool, Field(description="true if the figure rules combinations out, false if it is only shown")
    ] = True
    evidence: Annotated[Text, Field(description="a sentence on how the figure is known, or what is not disclosed")]
    by: Annotated[Literal["vendor", "independent"], Field(description='"vendor" or "independent"')]
    date: Annotated[Text | None, Field(description='the date of the source as a text, such as "2026-02"')] = None
    source: Annotated[Text, Field(description="the address of the source")]
    machines: Annotated[
        _Axis[Text] | None, Field(description="names of the machines to which the figure applies, or nothing for all")
    ] = None
    dtypes: Annotated[
        _Axis[Text] | None, Field(description="element types to which the figure applies, or nothing for all")
    ] = None
    drafts: Annotated[
        _Axis[Text] | None,
        Field(description='names of the drafts to which the figure applies, "none" without drafts, or nothing for all'),
    ] = None


class ScenarioForm(Form):
    """The top level of a scenario file: question, models, machines, drafts, published figures.

    The top level can also contain settings for all combinations, which are not part of this class.
    Their names are those of the options that ``wse sweep`` can vary.
    """

    title: Annotated[Text, Field(description="a title")]
    question: Annotated[Text, Field(description="the question that it answers")]
    models: Annotated[_Tables, Field(description="a list of tables [[models]]")]
    machines: Annotated[_Tables, Field(description="a list of tables [[machines]]")]
    drafts: Annotated[_Tables, Field(description="a list of tables [[drafts]]")] = [{}]
    tiers: Annotated[dict[str, Any] | None, Field(description="a table [tiers]")] = None
    prices: Annotated[dict[str, Any], Field(description="a table [prices] of numbers as in a file of --economics")] = {}
    published: Annotated[
        list[dict[str, Any]], Field(max_length=MOST_VALUES, description="a list of tables [[published]]")
    ] = []
