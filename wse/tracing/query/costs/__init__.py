"""Views of the steps in a trace: cycles and traffic, one by one, by group, and as a tree."""
