"""Links between PEs: the routes that words take over them, and how many words each carries."""
