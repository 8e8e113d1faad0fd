"""``python -m wse.reference FOLDER`` writes the pages of docs/reference into a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from wse.reference.pages import PAGES

for name, page in PAGES.items():
    Path(sys.argv[1], name).write_text(page(), encoding="utf-8")
