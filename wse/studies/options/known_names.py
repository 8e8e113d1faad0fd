"""Names that options take, for completion in a shell; the modules that know them are imported when it asks."""

from __future__ import annotations

from collections.abc import Iterable


def models() -> Iterable[str]:
    """Bundled models and configurations."""
    from wse.models.catalogue import names

    return names()


def wafers() -> Iterable[str]:
    """Wafer presets."""
    from wse.hardware.load import known_wafers

    return known_wafers()


def machine_numbers() -> Iterable[str]:
    """Numbers of a wafer and of software, as far as the sign before a value."""
    from wse.studies.options.settings import machine_numbers as names

    return [f"{name}=" for name in names()]


def changes() -> Iterable[str]:
    """Changes of the machine that are tried by themselves."""
    from wse.studies.what_if.changes import DEFAULT, DEFAULTS

    return (DEFAULT, *DEFAULTS.split(","))


def sweep_columns() -> Iterable[str]:
    """Columns of a sweep by their short names."""
    return ("dtype", "wafers", "users", "ttft", "user", "throughput", "fits", "cost")


def gpus() -> Iterable[str]:
    """GPU presets."""
    from wse.serving.gpus.load import known_gpus

    return known_gpus()


def stacks() -> Iterable[str]:
    """Serving stacks."""
    from wse.serving.gpus.load import known_stacks

    return known_stacks()


def software() -> Iterable[str]:
    """Software profiles."""
    from wse.hardware.load import known_software

    return known_software()


def mappings() -> Iterable[str]:
    """Mapping strategies."""
    from wse.compiler.strategies import strategies

    return strategies()


def drafts() -> Iterable[str]:
    """Drafts: models, and the look-up of n-grams."""
    from wse.studies.options.draft import NGRAM

    return (NGRAM, *models())


def acceptances() -> Iterable[str]:
    """Measured acceptances of drafts."""
    from wse.studies.options.acceptance import known_acceptances

    return known_acceptances()


def patterns() -> Iterable[str]:
    """Patterns of a line."""
    from wse.program.line_patterns import known_line_patterns

    return known_line_patterns()


def scenarios() -> Iterable[str]:
    """Bundled scenarios."""
    from importlib.resources import files

    return sorted(file.name.removesuffix(".toml") for file in (files("wse") / "data" / "scenarios").iterdir())
