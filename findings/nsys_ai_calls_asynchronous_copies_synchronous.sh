#!/usr/bin/env bash
# nsys-ai says of asynchronous copies between GPUs that they block the host, and advises pinned memory in the data loader.
#
# One would guess: cudaMemcpyPeerAsync returns before its copy is done, as its name says, and is no "synchronous memcpy".
# What happens: each call that begins with cudaMemcpy counts as synchronous unless it begins with cudaMemcpyAsync. cudaMemcpyPeerAsync,
# cudaMemcpy2DAsync and cudaMemcpy3DAsync are a warning, as cudaMemcpy is. Twenty copies from GPU to GPU, whose calls lasted
# 7 µs each, "block the host thread".
# Versions: nsys-ai 0.3.0, Python 3.11; a database with the tables of Nsight Systems' schema 3.22.
# Why it matters: cudaMemcpyPeerAsync copies from one GPU to another, the 2D and 3D forms copy parts of arrays. What the warning advises,
# cudaMemcpyAsync and pin_memory=True, is for copies from the host; a pipeline's transfers of activations stay as they are.
# Output seen:
#     cudaMemcpyAsync: calls of 0.14 ms in all; No Known Anti-Patterns Detected
#     cudaMemcpyPeerAsync: calls of 0.14 ms in all; 20 sync cudaMemcpy calls: 400.0MB in 16.0ms. These block the host thread.
#     cudaMemcpy2DAsync: calls of 0.14 ms in all; 20 sync cudaMemcpy calls: 400.0MB in 16.0ms. These block the host thread.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3.11 -m venv venv
venv/bin/pip install --quiet nsys-ai==0.3.0 duckdb==2.0.1
cat > make.py <<'PY'
import sqlite3
import sys

COPIES, BYTES, PERIOD_NS, CALL_NS, COPY_NS, KERNEL_NS = 20, 20_000_000, 2_000_000, 7_000, 800_000, 1_100_000
PROCESS, THREAD = 42 << 24, 42 << 24 | 42
DEVICE_MEMORY, PEER_TO_PEER = 2, 10
database, call = sqlite3.connect(sys.argv[1]), sys.argv[2]
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
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
        srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER,
        graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER);
    INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.22.1');
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 0, 'GPU-0', 132), (1, 'NVIDIA H100 80GB HBM3', 1, 'GPU-1', 132);
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'gemm(float*)'), (3, 'gemm');
""")
RUNTIME = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)"
COPY = """INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (
    ?, ?, 0, 1, NULL, 7, ?, ?, ?, ?, NULL, ?, ?, 0, 1, 1, 1, NULL, NULL, NULL, 1)"""
KERNEL = """INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (
    ?, ?, 0, 1, NULL, 7, ?, ?, 2, 3, NULL, 0, 0, 64, 128, 1, 1, 256, 1, 1, 0, 0, 0, 0, ?, 0, NULL, NULL)"""
database.execute("INSERT INTO StringIds VALUES (4, ?)", (call,))
for number in range(1, COPIES + 1):
    start_ns, copy, kernel = number * PERIOD_NS, 2 * number, 2 * number + 1
    copied_ns = start_ns + COPY_NS
    database.execute(RUNTIME, (start_ns - 8_000, start_ns - 8_000 + CALL_NS, THREAD, copy, 4))
    database.execute(COPY, (start_ns, copied_ns, copy, PROCESS, BYTES, PEER_TO_PEER, DEVICE_MEMORY, DEVICE_MEMORY))
    database.execute(RUNTIME, (start_ns - 500, start_ns - 100, THREAD, kernel, 1))
    database.execute(KERNEL, (copied_ns, copied_ns + KERNEL_NS, kernel, PROCESS, number))
database.commit()
(calls_ns,) = database.execute("SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE nameId = 4").fetchone()
print(f"{call.partition('_')[0]}: calls of {calls_ns / 1e6:.2f} ms in all; ", end="")
PY
for call in cudaMemcpyAsync_v3020 cudaMemcpyPeerAsync_v4000 cudaMemcpy2DAsync_v3020; do
    venv/bin/python make.py "$call.sqlite" "$call"
    venv/bin/nsys-ai skill run root_cause_matcher "$call.sqlite" > "$call.txt" 2> /dev/null
    grep --only-matching "No Known Anti-Patterns Detected\|[0-9]* sync cudaMemcpy calls.*" "$call.txt"
done
grep --quiet "No Known Anti-Patterns" cudaMemcpyAsync_v3020.txt && grep --quiet "20 sync" cudaMemcpyPeerAsync_v4000.txt || {
    echo "the behaviour changed" >&2
    exit 1
}
