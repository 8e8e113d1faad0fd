"""Readers of files with published measurements, and of the free text in their cells."""
