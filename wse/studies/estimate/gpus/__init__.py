"""The estimate of a model on GPUs."""
