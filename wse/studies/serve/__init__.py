"""``wse serve-sim``: a simulation of requests that arrive over time and are served by a machine."""
