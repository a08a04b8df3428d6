"""The report as one HTML file: sections and charts made in Python, readable without scripts and without a network."""
