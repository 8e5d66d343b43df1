"""Published checkpoints in the layout they were published in, read into the classes of transformers and diffusers.

Whatever reads one raises ModelError for files that are not whole, or that ask for another network than was built; the
docstrings here do not repeat it. `families` has a row for each family, `build` what the modules have in common.
"""
