"""``wse models``, ``wafers``, ``gpus`` and ``mappings``: list what is bundled with wse."""

from __future__ import annotations

from typing import Annotated

from wse.cli import options as opt
from wse.option import Option


def models(json: opt.Json = False) -> None:  # noqa: FBT002
    """List the bundled models.

    Example:

    \b
      wse models
    """
    from wse.studies import catalogue

    opt.print_result(catalogue.models(), json=json, print_text=catalogue.print_models)


def wafers(
    name: Annotated[str | None, Option(positional=True, metavar="NAME|FILE")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """List the bundled wafers and software profiles.

    With a name, show all numbers of this wafer or software profile, with their sources.

    Examples:

    \b
      wse wafers
      wse wafers wse2

    Args:
        name: Show every number of this wafer or software profile.
    """
    from wse.studies import catalogue

    if name is None:
        opt.print_result(catalogue.wafers(), json=json, print_text=catalogue.print_wafers)
    else:
        opt.print_result(catalogue.machine(name), json=json, print_text=catalogue.print_machine)


def gpus(
    name: Annotated[str | None, Option(positional=True, metavar="NAME|FILE")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """List the bundled GPUs and serving stacks.

    With a name, show all numbers of this GPU or serving stack, with their sources.

    Examples:

    \b
      wse gpus
      wse gpus h100
      wse gpus vllm

    Args:
        name: Show every number of this GPU or serving stack.
    """
    from wse.studies import gpu_catalogue

    if name is None:
        opt.print_result(gpu_catalogue.gpus(), json=json, print_text=gpu_catalogue.print_gpus)
    else:
        opt.print_result(gpu_catalogue.gpu(name), json=json, print_text=gpu_catalogue.print_gpu)


def mappings(json: opt.Json = False) -> None:  # noqa: FBT002
    """List the bundled mappings, which place a model's layers on PEs.

    Example:

    \b
      wse mappings
    """
    from wse.studies import catalogue

    opt.print_result(catalogue.mappings(), json=json, print_text=catalogue.print_mappings)
