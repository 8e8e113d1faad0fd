"""Times of stages, passes, first tokens and users, of a compiled layout."""
