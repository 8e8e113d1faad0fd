"""Wafers and software profiles: numbers with units, sources and evidence grades."""
