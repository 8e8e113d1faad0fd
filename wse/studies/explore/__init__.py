"""A table of a sweep, or any other, as one page on which any two columns are set against each other."""
