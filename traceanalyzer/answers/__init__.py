"""Answers to single questions: tables, what is on top, stacks, counters, what a change saves, memory files."""
