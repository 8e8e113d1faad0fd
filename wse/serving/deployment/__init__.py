"""Deployments on wafers and on GPUs: the duration of their rounds, from which speeds follow."""
