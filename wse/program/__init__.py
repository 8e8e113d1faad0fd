"""The Program: frozen arrays that the compiler emits and execution, fabric and wavelet models read."""
