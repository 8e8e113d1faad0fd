"""Entry point of ``python -m wse``, which is the same as the command ``wse``."""

from __future__ import annotations

import sys

from wse.cli import main

if __name__ == "__main__":
    sys.exit(main())
