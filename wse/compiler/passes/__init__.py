"""The compiler passes, one per module. Each pass is a function that maps a State to a new State."""
