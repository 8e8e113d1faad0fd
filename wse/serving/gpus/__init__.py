"""GPUs that serve language models: specifications, software costs, and the time of a pass."""
