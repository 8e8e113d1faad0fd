"""GPUs that serve language models: what they are, what their software costs, and how long a pass takes on them."""
