"""Speed, quality and scale, measured; every module without an underscore is a command that writes its result as JSON."""
