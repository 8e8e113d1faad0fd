from __future__ import annotations

def models() -> None:
    """x"""
