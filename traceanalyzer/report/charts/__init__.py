"""Charts as SVG text: each module draws one from plain numbers, the same bytes for the same numbers."""
