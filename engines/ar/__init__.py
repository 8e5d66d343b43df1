"""Shared by methods of the family discrete-ar."""
