"""``wse compile``: shows where a Program places layers and buffers, without executing it."""
