"""The papers' conclusions, each checked on the models that ship; `python -m benchmarks.claims` does it."""
