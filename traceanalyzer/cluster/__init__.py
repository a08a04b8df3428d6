"""Workers beyond this process: a Dask cluster runs the tasks of a run.

Scheduling, retries and lost workers are Dask's. Nothing here is imported by a command without `--cluster`.
"""
