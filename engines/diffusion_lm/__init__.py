"""Shared by methods of the family diffusion-lm."""
