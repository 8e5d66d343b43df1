"""Traces of decoding runs: records, files, replay and statistics. Needs neither a model nor torch."""
