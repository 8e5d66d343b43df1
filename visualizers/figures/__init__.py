"""The figures, a module for each question they answer."""
