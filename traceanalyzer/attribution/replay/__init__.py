"""Upper bounds of what removing a cause saves: a replay of all operations without that cause.

`events` turns a device's operations into the events of the replay, and `scan_order` sorts them. `scan` turns a what-if
into changes of the events; `walk` passes over the events, for one what-if or several at once, `run_scan` for all ranks
of a run. Of many ranks, `rank_scans` reads what is asked of each one's scan: `sync_points` reduces a rank to its
collectives (in passes over many of them by `batched`) and passes the leads on where devices meet, and `reduced_run`
joins the two.

`bounds` answers rules: `device_bounds` of one device, `run_bounds` of a run whose ranks wait for each other, unless
`ranks_apart` says why they cannot be scanned together. `what_if` answers people. docs/attribution.md has a worked
example.
"""
