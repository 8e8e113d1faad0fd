"""What comes of a setting: a row, an error that the user can mend, or a bug of ours."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from wse.errors import WseError
from wse.request.estimate_request import EstimateRequest
from wse.studies.estimate.estimate import estimate
from wse.studies.sweep.row import Entry, flat


@dataclass(frozen=True, slots=True)
class Answer:
    """The line of a setting's `Entry`; the traceback of a bug of ours, if it ended in one."""

    setting: int
    line: bytes
    failed: bool
    bug: str = ""


def answer(setting: int, request: EstimateRequest) -> Answer:
    """Estimate a setting."""
    try:
        return Answer(setting, Entry(setting=setting, row=flat(estimate(request).to_dict())).line(), failed=False)
    except WseError as error:
        return failure(setting, str(error))
    except Exception as error:
        return failure(setting, f"a bug of wse: {type(error).__name__}: {error}", traceback.format_exc())


def failure(setting: int, error: str, bug: str = "") -> Answer:
    """A setting without a row."""
    return Answer(setting, Entry(setting=setting, error=error).line(), failed=True, bug=bug)
