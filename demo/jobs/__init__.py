"""Running methods for the page, and what is computed from their results. Does not import Gradio."""
