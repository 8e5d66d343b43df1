"""Speed, quality and scale, measured; modules without an underscore are commands that write their result as JSON."""
