"""A rule's verdict in each scope of a run.

`sandbox` gives rules a connection that reads the run and nothing else, `scopes` lists devices and ranks,
`interventions` measures what removing a rule's time saves on a device, `run_savings` on the run, `verdicts` decides.
"""
