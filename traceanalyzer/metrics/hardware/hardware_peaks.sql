-- One row per accelerator model: its dense peak rates and memory bandwidth, from the vendor's data sheet.
--
-- A device matches by its name and, where models with one name differ, by its number of SMs or compute units. Rates are
-- dense (no structured sparsity), in TFLOP/s; NULL means that the device does not support the format. half is FP16 or
-- BF16 with FP32 accumulation on tensor cores. For AMD, fp32 is the vector rate; for products with two dies, each die
-- is one device. Where variants have one name and one number of SMs, the numbers are those of the fastest: a roof that is
-- too low would be passed. Data sheets that print rates with sparsity count half.
--
-- columns:
--   position         INTEGER  order; the first match decides
--   pattern          VARCHAR  RE2 regular expression, searched for in the device's name
--   sm_count         INTEGER  SMs or compute units of this variant; NULL: any
--   arch             INTEGER  compute capability x 10; NULL: not NVIDIA
--   fp32_tflops      DOUBLE   FP32 without tensor cores
--   tf32_tflops      DOUBLE   TF32 on tensor cores
--   half_tflops      DOUBLE   FP16 or BF16 on tensor cores
--   fp8_tflops       DOUBLE   FP8 on tensor cores
--   memory_gb_per_s  DOUBLE   memory bandwidth
--   source           VARCHAR  data sheet
SELECT
    row_number() OVER ()::INTEGER AS position,
    pattern,
    sm_count::INTEGER AS sm_count,
    arch::INTEGER AS arch,
    fp32_tflops::DOUBLE AS fp32_tflops,
    tf32_tflops::DOUBLE AS tf32_tflops,
    half_tflops::DOUBLE AS half_tflops,
    fp8_tflops::DOUBLE AS fp8_tflops,
    memory_gb_per_s::DOUBLE AS memory_gb_per_s,
    source
FROM (
    VALUES
    ('\bP100-PCIE', NULL, 60, 9.3, NULL, NULL, NULL, 732, 'https://images.nvidia.com/content/tesla/pdf/nvidia-tesla-p100-PCIe-datasheet.pdf'),
    ('\bP100\b', NULL, 60, 10.6, NULL, NULL, NULL, 732, 'https://images.nvidia.com/content/tesla/pdf/nvidia-tesla-p100-datasheet.pdf'),
    ('V100S', 80, 70, 16.4, NULL, 130, NULL, 1134, 'https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf'),
    ('V100-PCIE', 80, 70, 14, NULL, 112, NULL, 900, 'https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf'),
    ('V100', 80, 70, 15.7, NULL, 125, NULL, 900, 'https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf'),
    ('\bT4\b', 40, 75, 8.1, NULL, 65, NULL, 320, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf'),
    ('GTX 1080 Ti', 28, 61, 11.3, NULL, NULL, NULL, 484, 'https://www.nvidia.com/en-us/geforce/products/10series/geforce-gtx-1080-ti/'),
    ('GTX 1080', 20, 61, 8.9, NULL, NULL, NULL, 320, 'https://www.nvidia.com/en-us/geforce/10-series/'),
    ('GTX 1070 Ti', 19, 61, 8.2, NULL, NULL, NULL, 256, 'https://www.nvidia.com/en-us/geforce/10-series/'),
    ('GTX 1070', 15, 61, 6.5, NULL, NULL, NULL, 256, 'https://www.nvidia.com/en-us/geforce/10-series/'),
    ('GTX 1060', 10, 61, 4.4, NULL, NULL, NULL, 192, 'https://www.nvidia.com/en-us/geforce/10-series/'),
    ('GTX 1050 Ti', 6, 61, 2.1, NULL, NULL, NULL, 112, 'https://www.nvidia.com/en-us/geforce/10-series/'),
    ('TITAN Xp', 30, 61, 12.1, NULL, NULL, NULL, 548, 'https://www.nvidia.com/en-us/titan/titan-xp/'),
    ('\bP40\b', 30, 61, 12, NULL, NULL, NULL, 346, 'https://images.nvidia.com/content/pdf/tesla/184427-Tesla-P40-Datasheet-NV-Final-Letter-Web.pdf'),
    ('GTX 1660 Ti', 24, 75, 5.4, NULL, NULL, NULL, 288, 'https://www.nvidia.com/en-us/geforce/graphics-cards/16-series/'),
    ('GTX 1660 SUPER', 22, 75, 5, NULL, NULL, NULL, 336, 'https://www.nvidia.com/en-us/geforce/graphics-cards/16-series/'),
    ('GTX 1660', 22, 75, 5, NULL, NULL, NULL, 192, 'https://www.nvidia.com/en-us/geforce/graphics-cards/16-series/'),
    ('GTX 1650', 14, 75, 3, NULL, NULL, NULL, 192, 'https://www.nvidia.com/en-us/geforce/graphics-cards/16-series/'),
    ('TITAN V', 80, 70, 14.9, NULL, 110, NULL, 653, 'https://www.nvidia.com/en-us/titan/titan-v/'),
    ('TITAN RTX', 72, 75, 16.3, NULL, 130.5, NULL, 672, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('RTX 2080 Ti', 68, 75, 13.4, NULL, 53.8, NULL, 616, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('RTX 2080 SUPER', 48, 75, 11.2, NULL, 44.6, NULL, 496, 'https://www.nvidia.com/en-us/geforce/20-series/'),
    ('RTX 2080', 46, 75, 10.1, NULL, 40.3, NULL, 448, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('RTX 2070 SUPER', 40, 75, 9.1, NULL, 36.2, NULL, 448, 'https://www.nvidia.com/en-us/geforce/20-series/'),
    ('RTX 2070', 36, 75, 7.5, NULL, 29.9, NULL, 448, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('RTX 2060 SUPER', 34, 75, 7.2, NULL, 28.7, NULL, 448, 'https://www.nvidia.com/en-us/geforce/20-series/'),
    ('RTX 2060', 30, 75, 6.5, NULL, 25.8, NULL, 336, 'https://www.nvidia.com/en-us/geforce/20-series/'),
    ('Quadro RTX (6000|8000)', 72, 75, 16.3, NULL, 130.5, NULL, 672, 'https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf'),
    ('Quadro RTX 5000', 48, 75, 11.2, NULL, 89.2, NULL, 448, 'https://www.nvidia.com/content/dam/en-zz/Solutions/design-visualization/quadro-product-literature/quadro-rtx-5000-data-sheet-us-nvidia-704120-r4-web.pdf'),
    ('Quadro RTX 4000', 36, 75, 7.1, NULL, 57, NULL, 416, 'https://www.nvidia.com/content/dam/en-zz/Solutions/design-visualization/quadro-product-literature/quadro-rtx-4000-datasheet.pdf'),
    ('\bXavier\b', 8, 72, 1.4, NULL, 11.3, NULL, 136.5, 'https://www.nvidia.com/en-us/autonomous-machines/embedded-systems/jetson-agx-xavier/'),
    ('A[18]00.*80GB PCIe', 108, 80, 19.5, 156, 312, NULL, 1935, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf'),
    ('A[18]00.*80GB', 108, 80, 19.5, 156, 312, NULL, 2039, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf'),
    ('A[18]00', 108, 80, 19.5, 156, 312, NULL, 1555, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf'),
    ('\bA30\b', 56, 80, 10.3, 82, 165, NULL, 933, 'https://www.nvidia.com/content/dam/en-zz/Solutions/data-center/products/a30-gpu/pdf/a30-datasheet.pdf'),
    ('\bA10G\b', NULL, 86, 35, 35, 70, NULL, 600, 'https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf'),
    ('\bA10\b', NULL, 86, 31.2, 62.5, 125, NULL, 600, 'https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a10/pdf/datasheet-new/nvidia-a10-datasheet.pdf'),
    ('RTX A6000', 84, 86, 38.7, 77.4, 154.8, NULL, 768, 'https://www.nvidia.com/content/dam/en-zz/Solutions/design-visualization/quadro-product-literature/proviz-print-nvidia-rtx-a6000-datasheet-us-nvidia-1454980-r9-web.pdf'),
    ('\bA40\b', 84, 86, 37.4, 74.8, 149.7, NULL, 696, 'https://images.nvidia.com/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf'),
    ('RTX A5000', 64, 86, 27.8, 55.6, 111.1, NULL, 768, 'https://www.nvidia.com/content/dam/en-zz/Solutions/gtcs21/rtx-a5000/nvidia-rtx-a5000-datasheet.pdf'),
    ('RTX A5500', 80, 86, 34.1, 68.2, 136.4, NULL, 768, 'https://www.nvidia.com/en-us/design-visualization/rtx-a5500/'),
    ('RTX A4500', 56, 86, 23.7, 47.3, 94.6, NULL, 640, 'https://www.nvidia.com/en-us/design-visualization/rtx-a4500/'),
    ('RTX A4000', 48, 86, 19.2, 38.3, 76.7, NULL, 448, 'https://www.nvidia.com/content/dam/en-zz/Solutions/gtcs21/rtx-a4000/nvidia-rtx-a4000-datasheet.pdf'),
    ('RTX A2000', 26, 86, 8, 16, 31.9, NULL, 288, 'https://www.nvidia.com/content/dam/en-zz/Solutions/gtcs21/rtx-a2000/nvidia-rtx-a2000-datasheet.pdf'),
    ('\bA2\b', 10, 86, 4.5, 9, 18, NULL, 200, 'https://www.nvidia.com/en-us/data-center/products/a2/'),
    ('RTX 3090 Ti', 84, 86, 40, 40, 80, NULL, 1008, 'https://www.nvidia.com/en-us/geforce/graphics-cards/30-series/rtx-3090-3090ti/'),
    ('RTX 3090', NULL, 86, 35.6, 35.6, 71.2, NULL, 936, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3080 Ti', 80, 86, 34.1, 34.1, 68.2, NULL, 912, 'https://www.nvidia.com/en-us/geforce/graphics-cards/30-series/rtx-3080-3080ti/'),
    ('RTX 3080', 68, 86, 29.8, 29.8, 59.5, NULL, 760, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3070 Ti', 48, 86, 21.7, 21.7, 43.5, NULL, 608, 'https://www.nvidia.com/en-us/geforce/graphics-cards/30-series/rtx-3070-3070ti/'),
    ('RTX 3070', 46, 86, 20.3, 20.3, 40.6, NULL, 448, 'https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf'),
    ('RTX 3060 Ti', 38, 86, 16.2, 16.2, 32.4, NULL, 608, 'https://www.nvidia.com/en-us/geforce/graphics-cards/30-series/rtx-3060-3060ti/'),
    ('RTX 3060', 28, 86, 12.7, 12.7, 25.5, NULL, 360, 'https://www.nvidia.com/en-us/geforce/graphics-cards/30-series/rtx-3060-3060ti/'),
    ('RTX 3050', 20, 86, 9.1, 9.1, 18.2, NULL, 224, 'https://www.nvidia.com/en-us/geforce/graphics-cards/compare/'),
    ('\bOrin\b', 16, 87, 5.3, 21.2, 42.5, NULL, 204.8, 'https://www.nvidia.com/en-us/autonomous-machines/embedded-systems/jetson-orin/'),
    ('\bOrin\b', 14, 87, 3.3, 13.5, 27, NULL, 204.8, 'https://www.nvidia.com/en-us/autonomous-machines/embedded-systems/jetson-orin/'),
    ('\bOrin\b', 8, 87, 2.4, 9.6, 19.2, NULL, 102.4, 'https://www.nvidia.com/en-us/autonomous-machines/embedded-systems/jetson-orin/'),
    ('\bL4\b', 58, 89, 30.3, 60, 121, 242, 300, 'https://www.nvidia.com/en-us/data-center/l4/'),
    ('L40S', 142, 89, 91.6, 183, 362, 733, 864, 'https://www.nvidia.com/en-us/data-center/l40s/'),
    ('\bL40\b', 142, 89, 90.5, 90.5, 181, 362, 864, 'https://www.nvidia.com/en-us/data-center/l40/'),
    ('RTX 6000 Ada', 142, 89, 91.1, 182.1, 364.2, 728.5, 960, 'https://www.nvidia.com/en-us/design-visualization/rtx-6000/'),
    ('RTX 5000 Ada', 100, 89, 65.3, 130.6, 261.1, 522.1, 576, 'https://www.nvidia.com/en-us/design-visualization/rtx-5000/'),
    ('RTX 4500 Ada', 60, 89, 39.6, 79.2, 158.5, 317, 432, 'https://www.nvidia.com/en-us/design-visualization/rtx-4500/'),
    ('RTX 4000 Ada', 48, 89, 26.7, 53.4, 106.9, 213.8, 360, 'https://www.nvidia.com/en-us/design-visualization/rtx-4000/'),
    ('RTX 4090', 128, 89, 82.6, 82.6, 165.2, 330.3, 1008, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 4080 SUPER', 80, 89, 52.2, 52.2, 104.4, 208.9, 736, 'https://www.nvidia.com/en-us/geforce/graphics-cards/compare/'),
    ('RTX 4080', 76, 89, 48.7, 48.7, 97.5, 194.9, 717, 'https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf'),
    ('RTX 4070 Ti SUPER', 66, 89, 44.1, 44.1, 88.2, 176.4, 672, 'https://www.nvidia.com/en-us/geforce/graphics-cards/compare/'),
    ('RTX 4070 SUPER', 56, 89, 35.5, 35.5, 71, 142, 504, 'https://www.nvidia.com/en-us/geforce/graphics-cards/compare/'),
    ('RTX 4070 Ti', 60, 89, 40.1, 40.1, 80.2, 160.4, 504, 'https://www.nvidia.com/en-us/geforce/graphics-cards/40-series/rtx-4070-family/'),
    ('RTX 4070', 46, 89, 29.1, 29.1, 58.3, 116.6, 504, 'https://www.nvidia.com/en-us/geforce/graphics-cards/40-series/rtx-4070-family/'),
    ('RTX 4060 Ti', 34, 89, 22.1, 22.1, 44.1, 88.3, 288, 'https://www.nvidia.com/en-us/geforce/graphics-cards/40-series/rtx-4060-4060ti/'),
    ('RTX 4060', 24, 89, 15.1, 15.1, 30.2, 60.5, 272, 'https://www.nvidia.com/en-us/geforce/graphics-cards/40-series/rtx-4060-4060ti/'),
    ('H100 NVL', 132, 90, 60, 417, 835, 1671, 3900, 'https://www.nvidia.com/en-us/data-center/h100/'),
    ('H[18]00', 114, 90, 51, 378, 756, 1513, 2000, 'https://www.nvidia.com/en-us/data-center/h100/'),
    ('GH200.*(144|HBM3e)', 132, 90, 67, 494, 989, 1979, 4900, 'https://resources.nvidia.com/en-us-grace-cpu/grace-hopper-superchip'),
    ('GH200', 132, 90, 67, 494, 989, 1979, 4000, 'https://resources.nvidia.com/en-us-grace-cpu/grace-hopper-superchip'),
    ('H[18]00', 132, 90, 67, 494, 989, 1979, 3350, 'https://www.nvidia.com/en-us/data-center/h100/'),
    ('\bH20\b', 78, 90, 44, 74, 148, 296, 4000, 'no public data sheet; as reported in https://zangshuxian.com/new/674733024499207168'),
    ('H200 NVL', 132, 90, 60, 417, 835, 1671, 4800, 'https://www.nvidia.com/en-us/data-center/h200/'),
    ('H200', 132, 90, 67, 494, 989, 1979, 4800, 'https://www.nvidia.com/en-us/data-center/h200/'),
    ('\bGB200\b', NULL, 100, 80, 1250, 2500, 5000, 8000, 'https://www.nvidia.com/en-us/data-center/gb200-nvl72/'),
    ('\bB200\b', 148, 100, 75, 1125, 2250, 4500, 8000, 'https://www.nvidia.com/en-us/data-center/hgx/'),
    ('\bB300\b', NULL, 103, 75, 1125, 2250, 4500, 8000, 'https://www.nvidia.com/en-us/data-center/hgx/'),
    ('\bGB300\b', NULL, 103, 80, 1250, 2500, 5000, 8000, 'https://www.nvidia.com/en-us/data-center/gb300-nvl72/'),
    ('RTX PRO 6000', 188, 120, 125, 251.9, 503.8, 1007.6, 1792, 'https://www.nvidia.com/en-us/products/workstations/professional-desktop-gpus/rtx-pro-6000/'),
    ('RTX 5090', 170, 120, 104.8, 104.8, 209.5, 419, 1792, 'https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf'),
    ('RTX 5080', 84, 120, 56.3, 56.3, 112.6, 225.1, 960, 'https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf'),
    ('RTX 5070 Ti', 70, 120, 43.9, 43.9, 87.9, 175.8, 896, 'https://www.nvidia.com/en-us/geforce/graphics-cards/compare/'),
    ('RTX 5070', 48, 120, 30.9, 30.9, 61.7, 123.5, 672, 'https://www.nvidia.com/en-us/geforce/graphics-cards/compare/'),
    ('RTX 5060 Ti', 36, 120, 23.7, 23.7, 47.4, 94.8, 448, 'https://www.nvidia.com/en-us/geforce/graphics-cards/compare/'),
    ('MI100', 120, NULL, 23.1, NULL, 184.6, NULL, 1229, 'https://www.amd.com/en/products/accelerators/instinct/mi100.html'),
    ('Data Center GPU Max 1550', NULL, NULL, 26.2, 209.7, 419.4, NULL, 1638, 'https://www.intel.com/content/www/us/en/products/sku/232873/intel-data-center-gpu-max-1550/specifications.html'),
    ('Data Center GPU Max 1100', NULL, NULL, 22.2, 177.8, 355.5, NULL, 1229, 'https://www.intel.com/content/www/us/en/products/sku/232876/intel-data-center-gpu-max-1100/specifications.html'),
    ('MI210', 104, NULL, 22.6, NULL, 181, NULL, 1638, 'https://www.amd.com/en/products/accelerators/instinct/mi200/mi210.html'),
    ('MI250X', 110, NULL, 23.9, NULL, 191.5, NULL, 1638, 'https://www.amd.com/en/products/accelerators/instinct/mi200/mi250x.html'),
    ('MI250', 104, NULL, 22.6, NULL, 181, NULL, 1638, 'https://www.amd.com/en/products/accelerators/instinct/mi200/mi250.html'),
    ('MI300X', 304, NULL, 163.4, 653.7, 1307.4, 2614.9, 5300, 'https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html'),
    ('MI300A', 228, NULL, 122.6, 490.3, 980.6, 1961.2, 5300, 'https://www.amd.com/en/products/accelerators/instinct/mi300/mi300a.html'),
    ('MI325X', 304, NULL, 163.4, 653.7, 1307.4, 2614.9, 6000, 'https://www.amd.com/en/products/accelerators/instinct/mi300/mi325x.html'),
    ('MI355X', 256, NULL, 157.3, NULL, 2516.6, 5033.2, 8000, 'https://www.amd.com/en/products/accelerators/instinct/mi350/mi355x.html'),
    ('MI350X', 256, NULL, 144.2, NULL, 2306.9, 4613.7, 8000, 'https://www.amd.com/en/products/accelerators/instinct/mi350/mi350x.html')
) AS peaks (
    pattern, sm_count, arch, fp32_tflops, tf32_tflops, half_tflops, fp8_tflops, memory_gb_per_s, source
)
