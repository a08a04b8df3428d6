"""Asking a run in SQL: `engine` opens the connection, `canonical` gives it tables, `errors` and
`completion` help who writes queries.
"""
