"""Discrete-event simulation of serving: requests arrive, wait, and are answered.

No files are read here.
"""
