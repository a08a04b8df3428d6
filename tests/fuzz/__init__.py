"""Mutations of traces that know their structure, tried against the command's whole way; `make fuzz S=600` runs them."""
