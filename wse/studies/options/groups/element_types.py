"""TypeOptions: options for the element types of weights, activations and sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.number_formats import CODINGS, DTYPES
from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeOptions:
    """Options for the element types used to compute a model, such as float16 or int8.

    None means that the default depends on the model.
    """

    dtype: Annotated[
        str | None,
        Option(
            doc="Element type of weights: float32, float16 or bfloat16; or, for linear layers, int8 or fp8 (e4m3) with "
            "a scale per output, int4 with a scale per 32 inputs, or mxfp4 (e2m1) with a power of two per 32 inputs. "
            "FP8 and MXFP4 checkpoints keep their own scales. Default: the type of the published weights.",
            panel="Model",
            metavar="TYPE",
            known_values=(*DTYPES, *CODINGS),
        ),
    ] = None
    activations: Annotated[
        str | None,
        Option(
            doc="Element type of all but quantised weights: float32, float16 or bfloat16. Default: the model's own.",
            panel="Model",
            metavar="TYPE",
            known_values=DTYPES,
        ),
    ] = None
    accumulate: Annotated[
        str | None,
        Option(
            doc="Element type of sums: float32 (default), or float16 with --dtype float16.",
            panel="Model",
            metavar="float32|float16",
        ),
    ] = None
