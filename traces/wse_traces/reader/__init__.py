"""Reading of traces: checks of a file, columns on demand, and what follows from them."""
