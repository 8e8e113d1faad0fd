"""Claims about fast inference, each decided by a computation of this program."""
