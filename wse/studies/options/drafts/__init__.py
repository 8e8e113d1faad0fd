"""Options of speculative decoding: acceptance of draft tokens, and checks of the draft."""
