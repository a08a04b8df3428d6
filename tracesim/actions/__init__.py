"""The actions of a step, played on the machine: one module per kind of action."""
