"""One reporter a module; each takes what it reports and a stream."""
