"""What names of the host's events mean: frames, calls, operators, annotations of the user, and XLA's own work."""

from __future__ import annotations

import re
from functools import lru_cache

CATEGORIES = ("other", "annotation", "python", "runtime", "driver", "cpu_op")
OTHER, ANNOTATION, PYTHON, RUNTIME, DRIVER, CPU_OP = range(len(CATEGORIES))
_RUNTIME_NAME = re.compile(r"(?:cuda|hip)[A-Z]")
_DRIVER_NAME = re.compile(r"cu[A-Z]|hsa_")
# Names that XLA, its clients and the frameworks give what they do themselves: a missed annotation of the user costs
# less than an invented one.
_OWN_NAME = re.compile(
    r"\$|PjitFunction\(|Wait |end: |ParseArguments|DevicePut|shard_args|Handle |AllocateOutputBuffers|H2D Dispatch"
    r"|XLA|Xla|.*::|.*:XLA \w+ module|TF[A-Z_]|Eager|Compile|Executor|<unknown>|<UNKNOWN>|Build buffer|RecordUsage"
    r"|Memory(?:Allocation|Deallocation)|Copy(?:From|To)|Transfer|Linearize|ThenExecuteCallback"
    r"|Resolve constant globals|MakeOutputBuffers|ComputeSemaphoreAcquire|RunInvariantCheckers|cpp_pjit|pjit|pmap"
    r"|backend_compile|PJRT_|FunctionRun"
    r"|lower_sharding_computation|trace_to_jaxpr|BatchedCopyToDevice|batched_copy_|ExecuteReplicated|ExecuteSharded"
    r"|ValidateInputTypeAndPlacement|tf\.constant$|convert_to_tensor|.*SyncTensorsGraph|StepMarker$|SyncLiveTensorsGraph"
    r"|TensorCollectionBarrier|CollectSyncTensors|ExtractIRAndPrepareXlaData|RunPostOrder|SetTensorData|GetTensorsOpsData"
    # Passes and operations of compiled programs.
    r"|[\w-]+ \((?:jit|pjit|pmap|Sync|cluster)\w*\)|wrapped_|command_buffer"
    r"|custom-call|memcpy|memset|copy$"
    r"|.*fusion[._\d]*$|[a-z][\w-]*\.\d+$"
)
# An operator of TensorFlow: its place in the model, and its type. What feeds the model, or moves values, is none.
_TENSORFLOW_OP = re.compile(
    r"(?P<place>[^\s:]+):_?(?P<type>(?!(?:Eager)?PyFunc|Iterator|MultiDeviceIterator|RemoteCall|Optional|(?:Host)?Recv|(?:Host)?Send)"
    r"(?!\w*Dataset)[A-Z]\w*)"
)


@lru_cache(2**16)
def category_of_name(name: str) -> int:
    """Return the category that a name alone shows."""
    if name.startswith("$"):
        return PYTHON
    if _RUNTIME_NAME.match(name):
        return RUNTIME
    if _DRIVER_NAME.match(name):
        return DRIVER
    if _is_tensorflow_op(name):
        return CPU_OP
    return OTHER if _OWN_NAME.match(name) or not name else ANNOTATION


def _is_tensorflow_op(name: str) -> bool:
    """Return whether a name is that of an operator: `model/dense/MatMul:MatMul`, `mul:Mul`, and not `phase:Train`."""
    found = _TENSORFLOW_OP.fullmatch(name)
    return found is not None and ("/" in found["place"] or found["place"].lower().startswith(found["type"].lower()))
