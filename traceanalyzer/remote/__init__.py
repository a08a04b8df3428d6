"""Runs in object stores and on servers: what they hold, read without a copy where the format allows it.

`location` understands what a user names, and says what each client of a store offers; `remote_object` reads one object.
"""
