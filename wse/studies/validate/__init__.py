"""Command ``validate``: published measurements, the predictions of the models, and their errors."""
