"""Matching of communication kernels over ranks.

`comm_calls` describes the kernels and pairs them by their order, `collective_matching` finds collectives,
`message_matching` pairs sends with receives.
"""
