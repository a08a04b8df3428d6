"""Upper bounds of what removing a cause saves: a replay of all operations without that cause.

`events` turns a device's operations into the events of the replay, and `scan_order` sorts them. `scan` turns a what-if
into changes of the events, and `kernel` passes over the events of one device. `all_ranks` joins the passes of all
ranks of a run. Of many ranks, `rank_scans` reads what is asked of each one's scan, and `sync_points` reduces a rank to
its collectives and passes the shifts on where devices meet.

`bounds` answers rules: `device_bounds` of one device, `run_bounds` of a run whose ranks wait for each other. `what_if`
answers people. docs/attribution.md has a worked example.
"""
