"""Groups of options of ``wse run``: prompts, drafts and output files."""
