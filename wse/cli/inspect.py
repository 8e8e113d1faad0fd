from __future__ import annotations

def inspect() -> None:
    """x"""
