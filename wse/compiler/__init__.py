"""ModelSpec and WaferSpec to Program: a tuple of passes, each a function from State to State."""
