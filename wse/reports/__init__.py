"""Presentation of results: tables on terminals, in pages and as CSV; JSON; and progress reports."""
