#!/usr/bin/env bash
# The sorted list of Triton's proton-viewer leaves out the kernel that should be its first, and has the whole program as a kernel.
#
# One would guess: --print-sorted lists each kernel, the largest value first.
# What happens: the list skips its first row, as that is the program (ROOT) when one sorts by total time, which includes all kernels. By
# an average or a rate (avg_time, tflop16/s, util) the program is not the largest: the first row is a kernel, which is not
# printed, and ROOT stands further down among the kernels.
# Versions: triton 3.9.0, llnl-hatchet 2026.2.0, pandas 2.3.3, Python 3.11; a profile with the fields that Proton writes.
# Why it matters: the slowest call, or the kernel that is nearest to the device's peak, is what the list is asked for. The tree above the
# list has all of them, in order of their names, and with hundreds of kernels nobody compares the two.
# Output seen:
#     profile: attention 3000 us a call, gemm 500 us, embedding 2 us
#     sorted by avg_time: gemm 500.0, ROOT 73.87, embedding 2.0
#     sorted by time: gemm 5e+04, attention 3e+04, embedding 2e+03
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet triton==3.9.0 llnl-hatchet==2026.2.0 pandas==2.3.3
cat > "$folder/make.py" <<'PY'
import json
import sys

CALLS_AND_US = {"embedding": (1_000, 2), "gemm": (100, 500), "attention": (10, 3_000)}
kernels = []
for name, (calls, length_us) in CALLS_AND_US.items():
    metrics = {"count": calls, "time (ns)": calls * length_us * 1_000, "device_id": "0", "device_type": "CUDA"}
    kernels.append({"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": []})
root = {"frame": {"name": "ROOT", "type": "function"}, "metrics": {"count": 0, "time (ns)": 0}, "children": kernels}
device = {"arch": "90", "bus_width": 6144, "clock_rate": 1_980_000, "memory_clock_rate": 2_619_000, "num_sms": 132}
with open(sys.argv[1], "w") as file:
    json.dump([root, {"CUDA": {"0": device}}], file)
by_length = sorted(CALLS_AND_US.items(), key=lambda kernel: -kernel[1][1])
print("profile:", ", ".join(f"{name} {length_us} us" for name, (_, length_us) in by_length).replace(" us", " us a call", 1))
PY
"$folder/venv/bin/python" "$folder/make.py" "$folder/profile.hatchet"
sorted_by() {
    "$folder/venv/bin/proton-viewer" --metrics "$1/us" --print-sorted "$folder/profile.hatchet" |
        sed '1,/^Sorted kernels/d' | awk -v by="$1" 'NF {list = list (list ? ", " : "") $1 " " $2} END {print "sorted by " by ": " list}'
}
list=$(sorted_by avg_time)
echo "$list"
sorted_by time | tee "$folder/by_time"
grep --quiet attention "$folder/by_time" || { echo "the behaviour changed" >&2; exit 1; }
[[ $list == *ROOT* && $list != *attention* ]] || { echo "the behaviour changed" >&2; exit 1; }
