"""Error for models that are unavailable, and warning for those of which something is left out."""


class ModelError(RuntimeError):
    """A model that cannot be had; the message names the model, what is missing and the remedy."""


class ModelWarning(UserWarning):
    """Part of a model's files is not used; the message names the model and the part."""
