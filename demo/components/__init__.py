"""Parts of pages: controls, figures, tables, each with its events."""
