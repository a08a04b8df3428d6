"""What the issuing threads did at each instant.

`host_states` gives each call a state, `host_timeline` merges nested calls into one state per instant and finds captures
of graphs, `blocking_calls` finds calls that wait for the device, `launch_queue` finds launches into a full queue,
`host_costs` sums host time by cause, `batch_fetches` finds batches taken from a data loader's workers.
"""
