#!/usr/bin/env bash
# nsys-ai gives each NVTX range the kernels of all processes of a recording.
#
# One would guess: a range that rank 0 pushed holds the kernels that rank 0 launched. A recording of torchrun has all of its ranks, and
# Nsight Systems writes the process of each kernel (globalPid) and of each call (globalTid).
# What happens: kernels and calls are joined by correlationId alone. The driver numbers the calls of each process from 1, so each number
# is there once a rank, and each kernel is given to one launch of every rank. Two ranks on two GPUs, 10 ms of "encoder" on one
# and 30 ms of "decoder" on the other, have 40 ms and twice their kernels in each range.
# Versions: nsys-ai 0.3.0, Python 3.11; a database with the tables of Nsight Systems' schema 3.22.
# Why it matters: with eight ranks of one program, each range has about eight times its kernels and their time, which reads as a slow
# layer. Stages of a pipeline, whose difference one looks for, all have the same time: the sum.
# Output seen:
#     recorded: encoder 10 kernels of 10.00 ms on GPU 0, decoder 10 kernels of 30.00 ms on GPU 1
#     nsys-ai: decoder 20 kernels, 40.00 ms
#     nsys-ai: encoder 20 kernels, 40.00 ms
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3.11 -m venv venv
venv/bin/pip install --quiet nsys-ai==0.3.0 duckdb==2.0.1
cat > make.py <<'PY'
import sqlite3
import sys

KERNELS, EVERY_NS, BEGIN_NS = 10, 4_000_000, 1_000_000
RANKS = [("encoder", 41, 1_000_000), ("decoder", 42, 3_000_000)]  # range, process, length of a kernel
database = sqlite3.connect(sys.argv[1])
database.executescript("""
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
    CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, cuDevice INTEGER, uuid TEXT, smCount INTEGER);
    CREATE TABLE NVTX_EVENTS (
        start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,
        text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
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
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 0, 'GPU-0', 132), (1, 'NVIDIA H100 80GB HBM3', 1, 'GPU-1', 132);
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'gemm(float*)'), (3, 'gemm');
""")
RANGE = "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, ?, ?, NULL, NULL, 0)"
RUNTIME = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 1, 0, NULL)"
KERNEL = """INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (
    ?, ?, ?, 1, NULL, 7, ?, ?, 2, 3, NULL, 0, 0, 64, 128, 1, 1, 256, 1, 1, 0, 0, 0, 0, ?, 0, NULL, NULL)"""
for device, (name, process, length_ns) in enumerate(RANKS):
    global_process, global_thread = process << 24, process << 24 | process
    database.execute(RANGE, (BEGIN_NS, BEGIN_NS + KERNELS * EVERY_NS, name, global_thread))
    for number in range(1, KERNELS + 1):
        launch_ns = BEGIN_NS + (number - 1) * EVERY_NS + 10_000
        start_ns = launch_ns + 20_000
        database.execute(RUNTIME, (launch_ns, launch_ns + 8_000, global_thread, number))
        database.execute(KERNEL, (start_ns, start_ns + length_ns, device, number, global_process, number))
database.commit()
found = database.execute("SELECT globalPid >> 24, count(*), sum(end - start), deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1")
names = {process: name for name, process, _ in RANKS}
rows = [f"{names[process]} {count} kernels of {sum_ns / 1e6:.2f} ms on GPU {device}" for process, count, sum_ns, device in found]
print("recorded:", ", ".join(rows))
PY
venv/bin/python make.py ranks.sqlite
venv/bin/nsys-ai skill run nvtx_layer_breakdown ranks.sqlite 2> /dev/null |
    awk '$1 == "encoder" || $1 == "decoder" {print "nsys-ai: " $1 " " $3 " kernels, " $4 " ms"}' | tee answer.txt
[[ $(grep --count " 20 kernels, 40.00 ms" answer.txt) == 2 ]] || { echo "the behaviour changed" >&2; exit 1; }
