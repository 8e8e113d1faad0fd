"""``wse models``, ``wafers``, ``gpus`` and ``mappings``: list what is bundled with wse."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TextIO, TypeVar

from wse.cli import options as opt
from wse.studies.options.option import Option

if TYPE_CHECKING:
    from wse.reports.result import Result

R = TypeVar("R", bound="Result")


def models(json: opt.Json = False) -> None:  # noqa: FBT002
    """List the bundled models.

    Example:

    \b
      wse models
    """
    from wse.studies import catalogue

    _print(catalogue.models(), catalogue.print_models, json=json)


def wafers(
    name: Annotated[
        str | None,
        Option(positional=True, metavar="NAME|FILE", doc="Show every number of this wafer or software profile."),
    ] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """List the bundled wafers and software profiles.

    With a name, show all numbers of this wafer or software profile, with their sources.

    Examples:

    \b
      wse wafers
      wse wafers wse2
    """
    from wse.studies import catalogue

    if name is None:
        _print(catalogue.wafers(), catalogue.print_wafers, json=json)
    else:
        _print(catalogue.machine(name), catalogue.print_machine, json=json)


def gpus(
    name: Annotated[
        str | None,
        Option(positional=True, metavar="NAME|FILE", doc="Show every number of this GPU or serving stack."),
    ] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """List the bundled GPUs and serving stacks.

    With a name, show all numbers of this GPU or serving stack, with their sources.

    Examples:

    \b
      wse gpus
      wse gpus h100
      wse gpus vllm
    """
    from wse.studies import gpu_catalogue

    if name is None:
        _print(gpu_catalogue.gpus(), gpu_catalogue.print_gpus, json=json)
    else:
        _print(gpu_catalogue.gpu(name), gpu_catalogue.print_gpu, json=json)


def mappings(json: opt.Json = False) -> None:  # noqa: FBT002
    """List the bundled mappings, which place a model's layers on PEs.

    Example:

    \b
      wse mappings
    """
    from wse.studies import catalogue

    _print(catalogue.mappings(), catalogue.print_mappings, json=json)


def _print(content: R, print_text: Callable[[R, TextIO], None], *, json: bool) -> None:
    """Print a list of models, wafers, GPUs or mappings as JSON, or as text for a terminal.

    Args:
        content: List to print.
        print_text: Function that prints the list as text.
        json: Whether to print JSON.
    """
    from wse.reports.result import as_json

    if json:
        sys.stdout.write(as_json(content))
    else:
        print_text(content, sys.stdout)
