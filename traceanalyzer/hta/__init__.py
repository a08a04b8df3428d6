"""By the definitions of Holistic Trace Analysis (HTA): its critical path, and its numbers beside ours."""
