"""What methods of the family discrete-ar share."""
