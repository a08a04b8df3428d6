"""Upper bounds of what removing a cause saves: a scan over all operations without that cause.

`events` turns a device's operations into the events of the scan, and `scan_order` sorts them. `scan` turns a what-if
into changes of the events; `walk` passes over the events, `lanes` does so for several what-ifs at once, `run_scan` for
all ranks of a run. Of many ranks, `rank_scans` answers what is asked of each one's scan, which
`stored_scans` reads: `contraction` makes it as small as its collectives (in passes over many of them `abreast`),
`meetings` passes the leads on where devices meet, and `contracted_run` joins the two.

`bounds` answers rules: `device_bounds` of one device, `run_bounds` of a run whose ranks wait for each other, unless
`ranks_apart` says why they cannot be scanned together. `what_if` answers people. docs/attribution.md has a worked
example.
"""
