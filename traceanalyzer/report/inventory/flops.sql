-- One row per device with GPU work: bounds of the share of its peak rate that it reached, ranks in their order.
FROM flops_utilisation
ORDER BY rank NULLS LAST, trace_id, device
