"""The pages of docs/reference and the stub of the library, from options, results and signatures."""
