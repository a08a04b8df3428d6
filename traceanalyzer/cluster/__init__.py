"""Workers beyond this process: `address` reads `--cluster`, `dask_executor` has a Dask cluster run the tasks of a run.

Scheduling, retries and lost workers are Dask's. Nothing here is imported by a command without `--cluster`.
"""
