"""Methods, the models they run on, and what drives them. Knows no user interface."""
