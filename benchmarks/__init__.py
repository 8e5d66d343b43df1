"""Speed, quality and scale, measured; modules without an underscore are commands that write their result as JSON."""

import draftscope.engines  # noqa: F401  # before torch is loaded, so that it keeps to one thread as it does in the app
