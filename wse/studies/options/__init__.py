"""Option groups that several studies share, functions that read them, and their checks."""
