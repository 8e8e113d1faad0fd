"""Questions of serving, as pure functions over numbers: no Program, no files."""
