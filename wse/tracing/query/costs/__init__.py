"""Views of the steps in a trace: cycles and traffic by step, by group, and as a tree of ops."""
