"""A run as a file for other programs: one module a format, each with a function that writes to an open file."""
