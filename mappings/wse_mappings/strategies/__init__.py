"""Mapping strategies: how a model is partitioned across wafers, regions and PEs."""
