"""Studies: each prepares, compiles, executes or times a request, and gives a typed result with its tables."""
