-- Whether a call of a device's runtime or driver (CUDA's, HIP's, MUSA's, CNRT's, SYCL's) does what is asked for: launch a
-- kernel, replay a graph, record one, copy, fill, wait (for a device, a stream or an event), ask if work is done, allocate or
-- free a device's memory, or pin the host's. Nsight Systems appends the version of the call.
CREATE OR REPLACE MACRO calls_to(name, what) AS
    regexp_matches(
        name,
        CASE what
            WHEN 'launch' THEN '^(cuda|hip|cu|musa|mu)[A-Za-z]*Launch(Cooperative)?Kernel|^cnInvokeKernel'
            WHEN 'replay' THEN '^(cuda|hip|cu|musa|mu)GraphLaunch'
            WHEN 'record' THEN '^(cuda|hip|cu|musa|mu)(Graph(Instantiate|ExecUpdate)|Stream(Begin|End)Capture)'
            WHEN 'copy' THEN '^(cuda|hip|cu|musa|mu)Memcpy'
            WHEN 'fill' THEN '^(cuda|hip|cu|musa|mu)Memset'
            WHEN 'wait for a device'
            THEN '^(cuda|hip|musa)(Device|Thread)Synchronize|^(cu|mu)CtxSynchronize|^(AscendCL@)?aclrtSynchronizeDevice|^cn(rtSyncDevice|CtxSync)'
            WHEN 'wait for a stream'
            THEN '^(cuda|hip|cu|musa|mu)StreamSynchronize|^(ur|pi)QueueFinish$|^zeCommand\w+Synchronize$|^(AscendCL@)?aclrtSynchronizeStream|^cn(rt)?QueueSync'
            WHEN 'wait for an event'
            THEN '^(cuda|hip|cu|musa|mu)EventSynchronize|^(ur|pi)Events?Wait$|^ze(Event|Fence)HostSynchronize$|^(AscendCL@)?aclrtSynchronizeEvent|^cn(rt)?(WaitNotifier|NotifierWait)'
            WHEN 'wait'
            THEN '^(cuda|hip|cu|musa|mu)(Ctx|Device|Event|Stream|Thread)Synchronize|^(ur|pi)(QueueFinish|Events?Wait)$|^ze\w+Synchronize$'
                || '|^(AscendCL@)?aclrtSynchronize|^cn(rt)?(QueueSync|SyncDevice|CtxSync|WaitNotifier|NotifierWait)'
            WHEN 'ask' THEN '^(cuda|hip|cu|musa|mu)(Event|Stream)Query(_|$)'
            WHEN 'allocate'
            THEN '^(cuda|hip|musa)Malloc(3D|3DArray|Array|Async|FromPoolAsync|Managed|MipmappedArray|Pitch|)(_v[0-9]+|)$'
                || '|^(cu|hip|mu)Mem(Alloc(Async|FromPoolAsync|Managed|Pitch|)(_v[0-9]+)*$|AddressReserve|Create|Map|SetAccess)'
                || '|^urUSM(Device|Shared)Alloc$|^cn(rt)?(Malloc|Zmalloc|MemAlloc)(Async|)$'
            WHEN 'free'
            THEN '^(cuda|hip|musa)Free(Array|Async|MipmappedArray|)(_v[0-9]+|)$|^(cu|hip|mu)Mem(Free(Async|)(_v[0-9]+)*$|AddressFree|Release|Unmap)'
                || '|^urUSMFree$|^cn(rt)?Free(Async|)$'
            WHEN 'pin'
            THEN '^(cuda|hip|musa|cuMem|muMem)(Host(Alloc|Malloc|Free|Register|Unregister)|MallocHost|FreeHost|AllocHost)'
                || '|^urUSMHostAlloc$|^cnrt(HostMalloc|MallocHost|FreeHost)'
        END
    );
