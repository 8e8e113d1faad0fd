"""Import of the scripts in ``tools``, which is not a package."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).parents[2] / "tools"


def import_script(name: str) -> ModuleType:
    """Import a script of ``tools`` by its name, with ``tools`` on the module path only meanwhile."""
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))
