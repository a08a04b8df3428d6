"""What leaves a bound open: the trace does not hold it, and if it turns out against a fix, this saves less."""

LOADER_WORKERS = (
    "loader-workers: whoever comes earlier for a batch needs one that is ready, and how much faster than they had to "
    "the loader's workers could make them is in no trace"
)
STREAM_WAITS = "stream-waits: some calls let a stream, or the host, wait, and for what is not in the trace"
DOUBTS = (LOADER_WORKERS, STREAM_WAITS)
