"""Estimates of a model on GPUs."""
