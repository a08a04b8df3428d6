"""The simulated computer: host threads, streams, loader workers, clocks, and the true ledger that it keeps."""
