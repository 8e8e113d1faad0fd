"""``wse run``: compile, execute, time and trace a model."""
