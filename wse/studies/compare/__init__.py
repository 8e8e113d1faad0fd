"""``wse compare``: one model on several machines and mappings, and traces of two runs, side by side."""
