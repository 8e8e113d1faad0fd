"""Times of stages, passes, first tokens and users in a compiled layout."""
