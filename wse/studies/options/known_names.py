"""Names that options accept, for shell completion.

Each function imports the modules that it needs only when called, because slow imports would delay
``wse --help``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module


def _names_from(module: str, function: str) -> Callable[[], Iterable[str]]:
    """Return a function that imports a module and returns the names that one of its functions lists.

    Args:
        module: Name of the module, without ``wse.``.
        function: Name of the function.
    """

    def names() -> Iterable[str]:
        """Import the module, and return the names."""
        found: Iterable[str] = getattr(import_module(f"wse.{module}"), function)()
        return found

    return names


models = _names_from("models.catalogue", "names")
wafers = _names_from("hardware.load", "known_wafers")
software = _names_from("hardware.load", "known_software")
links = _names_from("hardware.wafer_links", "known_links")
gpus = _names_from("serving.gpus.load", "known_gpus")
stacks = _names_from("serving.gpus.load", "known_stacks")
mappings = _names_from("compiler.strategies", "strategies")
acceptances = _names_from("studies.options.drafts.acceptance", "known_acceptances")
patterns = _names_from("program.line_patterns", "known_line_patterns")
workloads = _names_from("serving.named_workloads", "workload_names")


def machine_numbers() -> Iterable[str]:
    """Return the names that can follow ``--set``, such as ``wafer.clock_hz=``.

    These are the names of all wafer and software-profile numbers, with "=" appended.
    """
    from wse.studies.options.settings import machine_numbers as names

    return [f"{name}=" for name in names()]


def changes() -> Iterable[str]:
    """Return the names of the machine changes that ``wse what-if`` tries by default.

    The first name is "default", which selects all of these changes.
    """
    from wse.studies.what_if.changes import DEFAULT, DEFAULTS

    return (DEFAULT, *DEFAULTS.split(","))


def sweep_columns() -> Iterable[str]:
    """Return the short names by which columns of the ``wse sweep`` table can be selected."""
    names = "dtype prompt new wafers users replicas ttft user low high throughput fits cost"
    return tuple(names.split())


def drafts() -> Iterable[str]:
    """Return the sources of draft tokens: "ngram" (look-up in the text so far) and all models."""
    from wse.studies.options.drafts.draft import NGRAM

    return (NGRAM, *models())


def scenarios() -> Iterable[str]:
    """Return the names of bundled scenarios."""
    from importlib.resources import files

    return sorted(file.name.removesuffix(".toml") for file in (files("wse") / "data" / "scenarios").iterdir())
