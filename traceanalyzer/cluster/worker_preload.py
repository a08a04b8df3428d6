"""What a worker process that a command started for itself loads first (Dask's `preload`)."""

from traceanalyzer.process import hide_pandas

hide_pandas()
