"""Published checkpoints in the layout they were published in, read into native transformers classes."""
