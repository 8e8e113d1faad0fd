"""Writer of traces while a run proceeds."""
