"""What the issuing threads did at each instant.

`host_states` gives each call a state, `host_timeline` merges nested calls into one state per instant and finds captures
of graphs, `blocking_calls` finds calls that wait for the device, `queues` finds launches into a full
queue and batches taken from a data loader's workers, `host_costs` sums host time by cause.
"""
