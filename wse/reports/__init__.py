"""Results as people and programs read them: tables, on a terminal, in pages and as CSV; JSON; progress."""
