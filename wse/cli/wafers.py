from __future__ import annotations

def wafers() -> None:
    """x"""
