"""Error for models that are unavailable."""


class ModelError(RuntimeError):
    """A model that cannot be had; the message names the model, what is missing and the remedy."""
