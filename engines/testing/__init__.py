"""The tools by which a method proves itself: models small enough to know by heart, and checks of what it promises."""
