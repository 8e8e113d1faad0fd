"""Mapping of work to a mesh of PEs: cuts, rectangles, communication patterns and strategies.

Nothing in this package knows about transformers.
"""
