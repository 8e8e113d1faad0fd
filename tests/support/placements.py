"""Options of tests whose expected numbers depend on the machine and the mapping.

They set everything that such a number depends on, so that it does not change with the defaults of commands.
"""

from typing import Any, Final

ONE_REGION: Final[dict[str, Any]] = {
    "wafer": "wse2",
    "wafers": 1,
    "mapping": "region",
    "experts": "distributed",
    "software": "tuned",
}
"""Arguments of a request: one region on one WSE-2 with the costs of hand-written collectives."""

WSE2: Final[dict[str, Any]] = {"wafer": "wse2", "software": "tuned"}
"""Arguments of a request: a WSE-2 with the costs of hand-written collectives, and the default mapping."""
