"""``python -m wse``: the same as ``wse``."""

from __future__ import annotations

import sys

from wse.cli import main

if __name__ == "__main__":
    sys.exit(main())
