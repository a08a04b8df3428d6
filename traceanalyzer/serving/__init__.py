"""Answers for assistants: read-only tools over runs, confined to the folders named at start and bounded in size."""
