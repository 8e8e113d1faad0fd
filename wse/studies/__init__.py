"""Studies: one package per question, with its request, computation, result and tables."""
