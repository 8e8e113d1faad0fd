"""The self-contained page about a trace: its skeleton, style and script are the other files here."""
