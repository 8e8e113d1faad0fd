"""``wse compile``: where a Program puts everything, with nothing executed."""
