"""``wse pattern``: a comparison of communication patterns on a line of PEs."""
