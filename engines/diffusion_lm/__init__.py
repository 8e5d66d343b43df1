"""What methods of the family diffusion-lm share."""
