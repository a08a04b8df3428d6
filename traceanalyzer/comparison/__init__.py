"""Before and after: runs as summaries, what differs between two sets of them, how sure that is, and gates."""
