"""Decode sequences in lockstep on one network, a file per kind of network."""
