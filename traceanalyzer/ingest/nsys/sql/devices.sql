-- Devices by their number in this process, which differs from their number in the machine because of
-- CUDA_VISIBLE_DEVICES and the driver's order.
WITH used AS (
    SELECT DISTINCT device FROM gpu_contexts
),
ordinals AS (
    SELECT
        coalesce(cuda_device.cudaId, gpu.cuDevice, gpu.id) AS device,
        gpu.*,
        cuda_device.uuid AS own_uuid,
        cuda_device.cudaId IS NOT NULL AS is_recorded
    FROM gpu
    LEFT JOIN cuda_device
        ON cuda_device.gpuId = gpu.id
        AND (getvariable('pid') IS NULL OR cuda_device.pid = getvariable('pid'))
),
described AS (
    SELECT *
    FROM ordinals
    QUALIFY row_number() OVER (PARTITION BY device ORDER BY is_recorded DESC, id) = 1
)
SELECT
    device::INTEGER AS device,
    name,
    'nvidia' AS vendor,
    smCount::INTEGER AS sm_count,
    totalMemory AS memory_bytes,
    computeMajor::INTEGER AS compute_major,
    computeMinor::INTEGER AS compute_minor,
    threadsPerWarp::INTEGER AS warp_size,
    (maxWarpsPerSm * threadsPerWarp)::INTEGER AS max_threads_per_sm,
    isDiscrete = 0 AS is_integrated,
    -- Without a record of which process sees which GPU, a number of the process is a GPU only where there is one.
    CASE
        WHEN is_recorded OR (SELECT count(*) FROM gpu) = 1
        THEN coalesce(
            nullif(regexp_replace(lower(coalesce(nullif(own_uuid, ''), uuid)), '^gpu-', ''), ''),
            lower(nullif(busLocation, '')) || ' ' || getvariable('host')
        )
    END AS gpu
FROM described
FULL JOIN used USING (device)
WHERE device IS NOT NULL
ORDER BY device;
