"""Upper bounds of what removing a cause saves: a replay of all operations without that cause.

`events` turns a device's operations into the events of the replay, and `scan_order` sorts them. `scan` turns a what-if
into changes of the events, and `kernel` passes over the events of one device, or of all ranks of a run together
(`run_scan`). Of many ranks, `rank_scans` reads what is asked of each one's scan: `sync_points` reduces a rank to its
collectives and passes the leads on where devices meet, and `reduced_run` joins the two.

`bounds` answers rules: `device_bounds` of one device, `run_bounds` of a run whose ranks wait for each other, unless
`ranks_apart` says why they cannot be scanned together. `what_if` answers people. docs/attribution.md has a worked
example.
"""
