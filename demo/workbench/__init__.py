"""Comparing runs: the tray that holds them, repeating them, what is taken away. Pages put these together."""
