"""Simulated jobs that only tests use: healthy bases, workloads with a known cause, and what is taken out of them."""
