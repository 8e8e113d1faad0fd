"""Predictors of published measurements, one kind of measurement a file."""
