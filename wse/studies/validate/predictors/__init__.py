"""Predictors of published measurements: one module for each kind of measurement."""
