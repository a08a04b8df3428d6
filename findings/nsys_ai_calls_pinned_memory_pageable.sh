#!/usr/bin/env bash
# nsys-ai says "pageable" of copies from pinned memory, and finds nothing wrong with pageable ones.
#
# One would guess: a tool that reads Nsight Systems' exports takes the meaning of srcKind from the table beside it in the same file:
# ENUM_CUDA_MEM_KIND, where 0 is pageable and 1 is pinned.
# What happens: its check for pageable copies reads 1 as pageable. Twenty asynchronous copies of 20 MB from pageable memory pass as
# healthy; with pinned memory they are a warning, and its advice is to pin the memory.
# Versions: nsys-ai 0.3.0, Python 3.11; a database with the tables of Nsight Systems' schema 3.22.
# Why it matters: pinning is the first thing one tries on slow input copies. Who has done it is told to do it; who has not hears that
# all is well.
# Output seen:
#     kind 0 (Pageable): No Known Anti-Patterns Detected
#     kind 1 (Pinned): 20 memcpy ops using pageable memory: 400.0MB in 16.0ms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3.11 -m venv venv
venv/bin/pip install --quiet nsys-ai==0.3.0 duckdb==2.0.1
cat > make.py <<'PY'
import sqlite3
import sys

COPIES, BYTES, PERIOD_NS, COPY_NS, KERNEL_NS = 20, 20_000_000, 2_000_000, 800_000, 1_100_000
PROCESS, THREAD = 42 << 24, 42 << 24 | 42
DEVICE_MEMORY = 2
database = sqlite3.connect(sys.argv[1])
source_kind = int(sys.argv[2])
database.executescript("""
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
    CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, cuDevice INTEGER, uuid TEXT, smCount INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
        start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
        correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
        cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
        gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
        staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
        localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
        sharedMemoryExecuted INTEGER, graphNodeId INTEGER, graphId INTEGER);
    INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.22.1');
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 0, 'GPU-0', 132);
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'gemm(float*)'), (3, 'gemm'), (4, 'cudaMemcpyAsync_v3020');
    CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device');
    CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'),
        (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'), (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device');
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
        srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER,
        graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER);
""")
RUNTIME = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)"
COPY = """INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (
    ?, ?, 0, 1, NULL, 7, ?, ?, ?, 1, NULL, ?, ?, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1)"""
KERNEL = """INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (
    ?, ?, 0, 1, NULL, 7, ?, ?, 2, 3, NULL, 0, 0, 64, 128, 1, 1, 256, 1, 1, 0, 0, 0, 0, ?, 0, NULL, NULL)"""
for number in range(1, COPIES + 1):
    start_ns, copy, kernel = number * PERIOD_NS, 2 * number, 2 * number + 1
    copied_ns = start_ns + COPY_NS
    database.execute(RUNTIME, (start_ns - 8_000, start_ns - 1_000, THREAD, copy, 4))
    database.execute(COPY, (start_ns, copied_ns, copy, PROCESS, BYTES, source_kind, DEVICE_MEMORY))
    database.execute(RUNTIME, (start_ns - 500, start_ns - 100, THREAD, kernel, 1))
    database.execute(KERNEL, (copied_ns, copied_ns + KERNEL_NS, kernel, PROCESS, number))
database.commit()
(label,) = database.execute("SELECT label FROM ENUM_CUDA_MEM_KIND WHERE id = ?", (source_kind,)).fetchone()
print(f"kind {source_kind} ({label}): ", end="")
PY
for kind in 0 1; do
    venv/bin/python make.py "kind$kind.sqlite" "$kind"
    venv/bin/nsys-ai skill run root_cause_matcher "kind$kind.sqlite" > "kind$kind.txt" 2> /dev/null
    grep --only-matching "No Known Anti-Patterns Detected\|[0-9]* memcpy ops using pageable memory: [^ ]* in [^ ]*" "kind$kind.txt"
done
grep --quiet "No Known Anti-Patterns" kind0.txt && grep --quiet "20 memcpy ops using pageable" kind1.txt || {
    echo "the behaviour changed" >&2
    exit 1
}
