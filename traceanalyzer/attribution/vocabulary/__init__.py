"""Shared by all folders of attribution: the buckets of the ledger, the options, and arrays as Arrow columns."""
