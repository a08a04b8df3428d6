"""Labels of real traces, and the numbers in them read from the raw files."""
