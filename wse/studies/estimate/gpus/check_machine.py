"""Check that an estimate does not mix options for wafers with options for GPUs.

The check needs only the request, and imports nothing that loads models.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from wse.errors import BadInput
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import get_option, group_path, options_of
from wse.studies.options.serving import GpuOptions

SHARED: Final = frozenset(
    (
        *("model", "dtype", "replicas", "verify_tokens", "draft", "gpu"),
        *("workload", "serving", "drafts", "gpu_serving", "costs"),
    )
)
"""Options, and groups of options, that apply to GPUs too."""


def check_machine(request: EstimateRequest, explicit_fields: Collection[str] = ()) -> None:
    """Check that a request does not mix options for GPUs with options for wafers.

    Args:
        request: The request.
        explicit_fields: Fields that the user set, including those set to their default value.

    Raises:
        BadInput: An option for wafers is given together with ``--gpu``, or an option for GPUs
            without ``--gpu``.
    """
    default = EstimateRequest()
    given_names = {
        *explicit_fields,
        *(n for n in options_of(EstimateRequest) if get_option(request, n) != get_option(default, n)),
    }
    if request.gpu is None:
        wrong_options = sorted(given_names & options_of(GpuOptions).keys())
        if wrong_options:
            raise BadInput(f"{_flag(wrong_options[0])}: applies to GPUs only; give --gpu NAME as well, or leave it out")
        return
    wrong_options = sorted(name for name in given_names if not {name, *group_path(EstimateRequest, name)} & SHARED)
    if wrong_options:
        flags = ", ".join(map(_flag, wrong_options))
        applies, it = ("applies", "it") if len(wrong_options) == 1 else ("apply", "them")
        raise BadInput(f"--gpu {request.gpu}: {flags} {applies} to wafers only; leave {it} out, or leave out --gpu")


def _flag(field: str) -> str:
    """Return the command-line option that sets a field of the request, such as ``--gpus``."""
    return options_of(EstimateRequest)[field].flag
