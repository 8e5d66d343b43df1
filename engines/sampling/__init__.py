"""Distributions, the randomness that draws from them, couplings of two of them, and verdicts on drafts."""
