"""``python -m wse.cli.reference CHECKOUT`` writes all pages of docs/reference."""

from __future__ import annotations

import sys
from pathlib import Path

from wse.cli.reference.files import FILES

for path, text in FILES.items():
    Path(sys.argv[1], path).write_text(text(), encoding="utf-8")
