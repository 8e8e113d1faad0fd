"""Command ``validate``: published measurements, model predictions, and prediction errors."""
