"""The web app: the only package that knows gradio."""
