"""Option groups of ``wse run``: prompts, drafts and output files."""
