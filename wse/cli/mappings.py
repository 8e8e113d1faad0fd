from __future__ import annotations

def mappings() -> None:
    """x"""
