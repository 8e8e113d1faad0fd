"""Runs whose wafers are actors on a Ray cluster."""
