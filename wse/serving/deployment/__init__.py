"""Machines that serve: wafers with a compiled layout, and servers of GPUs."""
