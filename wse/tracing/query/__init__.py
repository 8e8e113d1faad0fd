"""Queries of ``wse inspect``. Each view has a file that reads its data from a trace."""
