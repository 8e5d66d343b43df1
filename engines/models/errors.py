"""What is raised for a model that cannot be had."""


class ModelError(RuntimeError):
    """A model that cannot be had; the message names the model, what is missing and the remedy."""
