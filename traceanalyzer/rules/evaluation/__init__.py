"""A rule's verdict in each place of a run.

`sandbox` gives rules a connection that reads the run and nothing else, `places` lists devices and ranks,
`removals` measures what removing a rule's time saves on a device, `run_savings` on the run, `verdicts` decides.
"""
