"""Model families: a file for each group of related families, with a constant `FAMILIES`."""
