"""The compiler passes, one per module. Each is a function from a State to a new State."""
