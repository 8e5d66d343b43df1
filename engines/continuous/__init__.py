"""Shared by methods of the family continuous-ar."""
