"""Speed, quality and scale, measured; every module is a command that writes its results as JSON."""
