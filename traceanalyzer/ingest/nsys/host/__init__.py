"""What the host did: API calls and NVTX ranges nested into slices, and the calls that GPU work refers to."""
