"""What runs decode and what comes of them. Knows nothing of gradio."""
