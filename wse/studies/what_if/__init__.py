"""What-if studies: estimates on machines that differ from the given one in one number each."""
