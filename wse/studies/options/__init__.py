"""Option groups that several studies share, how they are read, and the checks that belong to them."""
