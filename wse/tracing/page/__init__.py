"""``wse view``: a self-contained HTML page about a trace, with its skeleton, style and scripts."""
