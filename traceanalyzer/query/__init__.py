"""Asking a run in SQL: `engine` opens the connection, `canonical` gives it tables, `limits` ends what takes long."""
