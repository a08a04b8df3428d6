#!/usr/bin/env bash
# nsys-ai calls a GPU that always has work queued "starved", once for each kernel that waits in the queue.
#
# One would guess: "starvation events (where GPU runs out of queued work)" are none where a program launches ahead and the GPU works
# without a gap: the longer a kernel waits in the queue, the further the host is ahead.
# What happens: the skill cpu_gpu_pipeline counts each kernel that starts more than 1 ms after its launch call ended. A hundred
# kernels of 1 ms, launched within 1 ms and run back to back, have 100 starvation events, and a warning that the CPU does not keep up.
# Versions: nsys-ai 0.3.0, Python 3.11; a database with the tables of Nsight Systems' schema 3.22.
# Why it matters: the number is the opposite of what it is named: the healthier the program, the higher. Who follows the warning
# takes Python and the data loader apart where only faster kernels can help.
# Output seen:
#     GPU idle between kernels: 0 ns
#       Total GPU starvation events (queue > 1ms): 100
#       ⚠ High starvation count — CPU may not be able to keep GPU fed. Check for Python GIL contention, heavy preprocessing, or explicit syncs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3.11 -m venv venv
venv/bin/pip install --quiet nsys-ai==0.3.0 duckdb==2.0.1
cat > make.py <<'PY'
import sqlite3
import sys

KERNELS, LENGTH_NS, LAUNCH_EVERY_NS = 100, 1_000_000, 10_000
PROCESS, THREAD = 42 << 24, 42 << 24 | 42
database = sqlite3.connect(sys.argv[1])
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
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'gemm(float*)'), (3, 'gemm');
""")
RUNTIME = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 1, 0, NULL)"
KERNEL = """INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (
    ?, ?, 0, 1, NULL, 7, ?, ?, 2, 3, NULL, 0, 0, 64, 128, 1, 1, 256, 1, 1, 0, 0, 0, 0, ?, 0, NULL, NULL)"""
for number in range(1, KERNELS + 1):
    launched_ns, start_ns = number * LAUNCH_EVERY_NS, 100_000 + number * LENGTH_NS
    database.execute(RUNTIME, (launched_ns - 8_000, launched_ns, THREAD, number))
    database.execute(KERNEL, (start_ns, start_ns + LENGTH_NS, number, PROCESS, number))
database.commit()
span_ns, busy_ns = database.execute("SELECT max(end) - min(start), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
print(f"GPU idle between kernels: {span_ns - busy_ns} ns")
PY
venv/bin/python make.py queued.sqlite
venv/bin/nsys-ai skill run cpu_gpu_pipeline queued.sqlite > answer.txt 2> /dev/null
grep --after-context=1 "starvation events" answer.txt || { echo "the behaviour changed" >&2; exit 1; }
grep --quiet "starvation events (queue > 1ms): 100" answer.txt || { echo "the behaviour changed" >&2; exit 1; }
