"""Questions of serving, as functions over numbers: no Program. Assumptions are read from files; nothing else is."""
