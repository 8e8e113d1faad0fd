"""Names that options accept, for shell completion.

Each function imports the modules that it needs only when called, because slow imports would delay
``wse --help``.
"""

from __future__ import annotations

from collections.abc import Iterable


def models() -> Iterable[str]:
    """Return the names of the bundled models and model configurations."""
    from wse.models.catalogue import names

    return names()


def wafers() -> Iterable[str]:
    """Return the names of wafer presets."""
    from wse.hardware.load import known_wafers

    return known_wafers()


def links() -> Iterable[str]:
    """Return the names of the bundled links between wafers, which ``--link`` accepts."""
    from wse.hardware.wafer_links import known_links

    return known_links()


def machine_numbers() -> Iterable[str]:
    """Return the names that can follow ``--set``, such as ``wafer.clock_hz=``.

    These are the names of all wafer and software-profile numbers, with "=" appended.
    """
    from wse.studies.options.settings import machine_numbers as names

    return [f"{name}=" for name in names()]


def changes() -> Iterable[str]:
    """Return the names of the machine changes that ``wse estimate --what-if`` tries by default.

    The first name is "default", which selects all of these changes.
    """
    from wse.studies.what_if.changes import DEFAULT, DEFAULTS

    return (DEFAULT, *DEFAULTS.split(","))


def sweep_columns() -> Iterable[str]:
    """Return the short names by which columns of the ``wse sweep`` table can be selected."""
    names = "dtype prompt new wafers users replicas ttft user low high throughput fits cost"
    return tuple(names.split())


def gpus() -> Iterable[str]:
    """Return the names of GPU presets."""
    from wse.serving.gpus.load import known_gpus

    return known_gpus()


def stacks() -> Iterable[str]:
    """Return the names of serving stacks."""
    from wse.serving.gpus.load import known_stacks

    return known_stacks()


def software() -> Iterable[str]:
    """Return the names of software profiles."""
    from wse.hardware.load import known_software

    return known_software()


def mappings() -> Iterable[str]:
    """Return the names of mapping strategies."""
    from wse.compiler.strategies import strategies

    return strategies()


def drafts() -> Iterable[str]:
    """Return the sources of draft tokens: "ngram" (look-up in the text so far) and all models."""
    from wse.studies.options.drafts.draft import NGRAM

    return (NGRAM, *models())


def acceptances() -> Iterable[str]:
    """Return the names of the bundled measurements of how often draft tokens are accepted.

    They are valid values for the ``--draft`` option of ``wse estimate``.
    """
    from wse.studies.options.drafts.acceptance import known_acceptances

    return known_acceptances()


def patterns() -> Iterable[str]:
    """Return the names of the communication patterns for a line of PEs, such as ``chain``."""
    from wse.program.line_patterns import known_line_patterns

    return known_line_patterns()


def workloads() -> Iterable[str]:
    """Return the names of workloads, which ``--workload`` accepts."""
    from wse.serving.named_workloads import workload_names

    return workload_names()


def scenarios() -> Iterable[str]:
    """Return the names of bundled scenarios."""
    from importlib.resources import files

    return sorted(file.name.removesuffix(".toml") for file in (files("wse") / "data" / "scenarios").iterdir())
