"""Families of checkpoints that generate images and videos: one row in `families` and one module each."""
