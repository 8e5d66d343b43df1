"""Decoders are run here: one or many on a model, timed and recorded."""
