"""Regions of wafers: what is placed, their layouts, their layers, and their rows and columns."""
