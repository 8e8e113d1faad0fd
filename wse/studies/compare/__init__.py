"""``wse compare``: comparison of machines and mappings for one model, or of two recorded runs."""
