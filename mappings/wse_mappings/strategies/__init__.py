"""Mapping strategies: how a model is divided over wafers, regions and PEs."""
