"""Scenarios: descriptions of simulated jobs, checked when they are read."""
