"""One file a model family: how its config keys and tensor names map to ours."""
