"""``wse inspect``: what is in a trace, one view a file, each as plain values."""
