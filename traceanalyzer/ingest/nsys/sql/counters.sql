-- Sampled metrics of GPUs, network cards and switches. They belong to the machine and are kept with the file's first trace.
SELECT
    gpu_metric.event_id, NULL::VARCHAR AS pid,
    coalesce(metricName, 'metric ' || gpu_metric.metricId) AS name,
    'GPU ' || (gpu_metric.typeId & 255) AS series,
    "timestamp" + getvariable('base_ns') AS start_ns,
    gpu_metric.value
FROM gpu_metric
LEFT JOIN gpu_metric_name USING (typeId, metricId)
UNION ALL
SELECT
    samples.event_id, NULL,
    coalesce(name, 'metric ' || samples.metricsIdx),
    samples.device || ' ' || (samples.globalId & 16777215),
    start + getvariable('base_ns'),
    samples.value
FROM (
    SELECT event_id, 'NIC' AS device, globalId, metricsListId, metricsIdx, start, value FROM nic_metric
    UNION ALL
    SELECT event_id, 'IB switch', globalId, metricsListId, metricsIdx, start, value FROM ib_switch_metric
    UNION ALL
    SELECT event_id, 'Ethernet switch', globalId, metricsListId, metricsIdx, start, value FROM eth_switch_metric
) AS samples
LEFT JOIN net_metric_name USING (metricsListId, metricsIdx);
