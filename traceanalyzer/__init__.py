"""Offline GPU trace analysis: where every microsecond of GPU time went, and what fixing it can win."""
