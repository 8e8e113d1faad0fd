"""Machines and traces side by side: `compare` one wafer with many and with GPUs, `race` their answers word by word."""
