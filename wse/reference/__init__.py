"""Pages of docs/reference, from options, result classes and signatures: ``python -m wse.reference docs/reference``."""
