"""The command line `draftscope`: one module for each group of commands."""
