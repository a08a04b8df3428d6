"""Files about memory that PyTorch writes beside traces: snapshots of the allocator, and exported timelines."""
