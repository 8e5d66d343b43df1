"""Models: what the driver asks of them, and every one there is."""
