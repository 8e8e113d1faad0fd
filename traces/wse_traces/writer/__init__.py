"""Writing of traces while a run proceeds."""
