"""One file for each model family. Every file defines a `FAMILY`."""
