"""The studio models: small, trained by this project, shipped with it."""
