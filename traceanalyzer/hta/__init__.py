"""By the definitions of Holistic Trace Analysis (HTA): its critical path."""
