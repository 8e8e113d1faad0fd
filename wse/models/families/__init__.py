"""Model families, one a file: how its config keys and tensor names map to ours."""
