"""The passes of the compiler, one a file: each takes a State and returns a new one."""
