"""``wse view``: what a page about a trace shows, gathered as plain values and packed arrays."""
