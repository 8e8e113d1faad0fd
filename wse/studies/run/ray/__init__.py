"""A run whose wafers are actors of a Ray cluster."""
