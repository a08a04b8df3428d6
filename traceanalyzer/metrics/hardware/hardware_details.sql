-- One row per accelerator model: peaks beside those of hardware_peaks, its largest cache, and its links to other devices.
--
-- A device matches by its name, and by its number of SMs or compute units where models with one name differ. Numbers are
-- from the vendors' data sheets and architecture papers (source); a project's own come first (project_peaks). Rates are
-- dense. A link's rate is that of one direction, over all links of the device: half of what is advertised. It is NULL where
-- the name does not say the form of the device (a card without links and a module with them have one name).
--
-- columns:
--   position             INTEGER  order; the first match decides
--   pattern              VARCHAR  RE2 regular expression, searched for in the device's name
--   sm_count             INTEGER  SMs or compute units of this variant; NULL: any
--   fp64_tflops          DOUBLE   FP64 without tensor cores; NULL: a small fraction of FP32
--   fp64_tensor_tflops   DOUBLE   FP64 on tensor cores or matrix cores; NULL: not supported
--   fp32_matrix_tflops   DOUBLE   FP32 on matrix cores, without rounding inputs; NULL: none, as on NVIDIA
--   int8_tops            DOUBLE   INT8 on tensor cores or matrix cores; NULL: not supported
--   fp4_tflops           DOUBLE   FP4 on tensor cores; NULL: not supported
--   cache_bytes          BIGINT   largest cache between the memory and the SMs
--   link_gb_per_s        DOUBLE   links to other devices, one direction; NULL: none, or the form is unknown
--   source               VARCHAR  data sheet or architecture paper
SELECT
    row_number() OVER ()::INTEGER AS position,
    pattern,
    sm_count::INTEGER AS sm_count,
    fp64_tflops::DOUBLE AS fp64_tflops,
    fp64_tensor_tflops::DOUBLE AS fp64_tensor_tflops,
    fp32_matrix_tflops::DOUBLE AS fp32_matrix_tflops,
    int8_tops::DOUBLE AS int8_tops,
    fp4_tflops::DOUBLE AS fp4_tflops,
    (cache_mib * 1048576)::BIGINT AS cache_bytes,
    link_gb_per_s::DOUBLE AS link_gb_per_s,
    source
FROM (
    VALUES
    ('V100S', 80, 8.2, NULL, NULL, NULL, NULL, 6, NULL, 'https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf'),
    ('V100-SXM', 80, 7.8, NULL, NULL, NULL, NULL, 6, 150, 'https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf'),
    ('V100', 80, 7, NULL, NULL, NULL, NULL, 6, NULL, 'https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf'),
    ('\bT4\b', 40, NULL, NULL, NULL, 130, NULL, 4, NULL, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf'),
    ('A100-SXM', 108, 9.7, 19.5, NULL, 624, NULL, 40, 300, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf'),
    ('A100', 108, 9.7, 19.5, NULL, 624, NULL, 40, NULL, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf'),
    ('\bA30\b', 56, 5.2, 10.3, NULL, 330, NULL, 24, NULL, 'https://www.nvidia.com/content/dam/en-zz/Solutions/data-center/products/a30-gpu/pdf/a30-datasheet.pdf'),
    ('\bA10G\b', NULL, NULL, NULL, NULL, 140, NULL, 6, NULL, 'https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf'),
    ('\bA10\b', NULL, NULL, NULL, NULL, 250, NULL, 6, NULL, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a10/pdf/datasheet-new/nvidia-a10-datasheet.pdf'),
    ('\bL4\b', 58, NULL, NULL, NULL, 242, NULL, 48, NULL, 'https://www.nvidia.com/en-us/data-center/l4/'),
    ('L40S', 142, NULL, NULL, NULL, 733, NULL, 96, NULL, 'https://www.nvidia.com/en-us/data-center/l40s/'),
    ('RTX 3090', NULL, NULL, NULL, NULL, 284, NULL, 6, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 4090', 128, NULL, NULL, NULL, 660.6, NULL, 72, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 2080 Ti', NULL, NULL, NULL, NULL, NULL, NULL, 5.5, NULL, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('TITAN RTX|Quadro RTX (6000|8000)', NULL, NULL, NULL, NULL, NULL, NULL, 6, NULL, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('RTX 2080|RTX 2070|RTX 2060 SUPER|Quadro RTX [45]000', NULL, NULL, NULL, NULL, NULL, NULL, 4, NULL, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('RTX 2060', NULL, NULL, NULL, NULL, NULL, NULL, 3, NULL, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('A800-SXM', 108, 9.7, 19.5, NULL, 624, NULL, 40, 200, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf'),
    ('A800', 108, 9.7, 19.5, NULL, 624, NULL, 40, NULL, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf'),
    ('RTX A6000|RTX A5[05]00|\bA40\b|RTX A4500', NULL, NULL, NULL, NULL, NULL, NULL, 6, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX A4000', NULL, NULL, NULL, NULL, NULL, NULL, 4, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3080 Ti', NULL, NULL, NULL, NULL, NULL, NULL, 6, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3080', 70, NULL, NULL, NULL, NULL, NULL, 6, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3080', NULL, NULL, NULL, NULL, NULL, NULL, 5, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3070|RTX 3060 Ti', NULL, NULL, NULL, NULL, NULL, NULL, 4, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3060', NULL, NULL, NULL, NULL, NULL, NULL, 3, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3050', NULL, NULL, NULL, NULL, NULL, NULL, 2, NULL, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('\bL40\b|RTX 6000 Ada', NULL, NULL, NULL, NULL, NULL, NULL, 96, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 5000 Ada|RTX 4080', NULL, NULL, NULL, NULL, NULL, NULL, 64, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 4070 Ti|RTX 4070 SUPER|RTX 4[05]00 Ada', NULL, NULL, NULL, NULL, NULL, NULL, 48, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 4070', NULL, NULL, NULL, NULL, NULL, NULL, 36, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 4060 Ti', NULL, NULL, NULL, NULL, NULL, NULL, 32, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 4060', NULL, NULL, NULL, NULL, NULL, NULL, 24, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX PRO 6000', NULL, NULL, NULL, NULL, NULL, NULL, 128, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf'),
    ('RTX 5090', NULL, NULL, NULL, NULL, NULL, NULL, 96, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf'),
    ('RTX 5080', NULL, NULL, NULL, NULL, NULL, NULL, 64, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf'),
    ('RTX 5070', NULL, NULL, NULL, NULL, NULL, NULL, 48, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf'),
    ('RTX 5060', NULL, NULL, NULL, NULL, NULL, NULL, 32, NULL, 'https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf'),
    ('H800', 132, 1, 1, NULL, 1979, NULL, 50, 200, 'https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet'),
    ('H100 NVL', 132, 30, 60, NULL, 1671, NULL, 50, 300, 'https://www.nvidia.com/en-us/data-center/h100/'),
    ('H100', 114, 26, 51, NULL, 1513, NULL, 50, NULL, 'https://www.nvidia.com/en-us/data-center/h100/'),
    ('H100.*(SXM|HBM3)', 132, 34, 67, NULL, 1979, NULL, 50, 450, 'https://www.nvidia.com/en-us/data-center/h100/'),
    ('GH200', 132, 34, 67, NULL, 1979, NULL, 50, NULL, 'https://resources.nvidia.com/en-us-grace-cpu/grace-hopper-superchip'),
    ('H100', 132, 34, 67, NULL, 1979, NULL, 50, NULL, 'https://www.nvidia.com/en-us/data-center/h100/'),
    ('H200 NVL', 132, 30, 60, NULL, 1671, NULL, 50, 450, 'https://www.nvidia.com/en-us/data-center/h200/'),
    ('H200', 132, 34, 67, NULL, 1979, NULL, 50, 450, 'https://www.nvidia.com/en-us/data-center/h200/'),
    ('\bB200\b', 148, 37, 37, NULL, 4500, 9000, 126, 900, 'https://www.nvidia.com/en-us/data-center/hgx/'),
    ('MI100', 120, 11.5, NULL, 46.1, 184.6, NULL, 8, NULL, 'https://www.amd.com/en/products/accelerators/instinct/mi100.html'),
    ('Data Center GPU Max 1550', NULL, 26.2, NULL, NULL, NULL, NULL, NULL, NULL, 'https://www.intel.com/content/www/us/en/products/sku/232873/intel-data-center-gpu-max-1550/specifications.html'),
    ('Data Center GPU Max 1100', NULL, 22.2, NULL, NULL, NULL, NULL, NULL, NULL, 'https://www.intel.com/content/www/us/en/products/sku/232876/intel-data-center-gpu-max-1100/specifications.html'),
    ('MI210', 104, 22.6, 45.3, 45.3, 181, NULL, 8, NULL, 'https://www.amd.com/en/products/accelerators/instinct/mi200/mi210.html'),
    ('MI250X', 110, 23.9, 47.9, 47.9, 191.5, NULL, 8, NULL, 'https://www.amd.com/en/products/accelerators/instinct/mi200/mi250x.html'),
    ('MI250', 104, 22.6, 45.3, 45.3, 181, NULL, 8, NULL, 'https://www.amd.com/en/products/accelerators/instinct/mi200/mi250.html'),
    ('MI300X', 304, 81.7, 163.4, 163.4, 2614.9, NULL, 256, 448, 'https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html'),
    ('MI300A', 228, 61.3, 122.6, 122.6, 1961.2, NULL, 256, NULL, 'https://www.amd.com/en/products/accelerators/instinct/mi300/mi300a.html'),
    ('MI325X', 304, 81.7, 163.4, 163.4, 2614.9, NULL, 256, 448, 'https://www.amd.com/en/products/accelerators/instinct/mi300/mi325x.html'),
    ('MI355X', 256, 78.6, 78.6, 157.3, 5033.2, 10066.3, 256, 537.6, 'https://www.amd.com/en/products/accelerators/instinct/mi350/mi355x.html'),
    ('MI350X', 256, 72.1, 72.1, 144.2, 4613.7, 9227.5, 256, 537.6, 'https://www.amd.com/en/products/accelerators/instinct/mi350/mi350x.html')
) AS details (
    pattern, sm_count, fp64_tflops, fp64_tensor_tflops, fp32_matrix_tflops, int8_tops, fp4_tflops, cache_mib, link_gb_per_s, source
)
