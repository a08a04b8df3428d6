"""The fault bench: jobs with one thing wrong in them, and whether a diagnosis finds it, there and for what it costs.

A planted fault (planted.py) is a scenario, what a diagnosis must tell about it and what not, and how the same job runs
without it. Its twin looks alike and is healthy. `make faultbench` runs all of it; tests/test_faultbench*.py a part.
"""
