-- One row per rank and bucket on the run's path, where ranks can be followed together; nothing for a run of one device.
SELECT rank, bucket, dur_ns
FROM run_ledger
WHERE abstains IS NULL
  AND (SELECT count(*) FROM windows) > 1
ORDER BY dur_ns DESC, rank, bucket
