"""What methods of the family continuous-ar share."""
