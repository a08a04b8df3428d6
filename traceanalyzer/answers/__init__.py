"""Answers to single questions: what is on top, stacks as a tree, counters, what a change would save, memory files."""
