"""Regions of wafers: what is placed, layouts of regions, their layers, and their rows and columns."""
