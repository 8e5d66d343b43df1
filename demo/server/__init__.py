"""Serving: requests, uploads, limits, sessions, the queue for the model, logging."""
