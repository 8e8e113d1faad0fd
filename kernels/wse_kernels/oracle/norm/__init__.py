"""Oracles of RMS, L2 and layer normalisation."""
