"""Reader of traces: checks of a file, columns read on demand, and values derived from them."""
