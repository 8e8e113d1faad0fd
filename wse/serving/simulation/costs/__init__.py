"""Times of passes and capacities of machines, as a simulation needs them."""
