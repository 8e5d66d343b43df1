"""Certificates: whether an engine samples from exactly the distribution of its target, drafts or not."""
