"""A comparison of two sides as sections of blocks, which `headline.diff_sections` puts in order."""
