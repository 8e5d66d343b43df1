"""Models in closed form, without weights, for tests and first examples."""
