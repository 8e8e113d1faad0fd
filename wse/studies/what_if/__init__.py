"""What-if studies: estimates for machines that each differ from the given machine in one number."""
