"""Tools to test methods: models small enough to enumerate, and checks of what a method promises."""
