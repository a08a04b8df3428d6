"""A simulated run as canonical tables, as a Kineto trace, and as an Nsight Systems export."""
