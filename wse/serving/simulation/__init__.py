"""Serving over time: requests that arrive, wait, are read and answered, as discrete events. No files are read here."""
