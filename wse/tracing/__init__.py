"""Traces: written while something runs, queried, printed, exported, and shown as a page."""
