"""Event simulation of serving: requests that arrive, wait, are read and are answered.

No files are read here.
"""
