"""The release of Draftscope."""

__version__ = "0.1.0"
