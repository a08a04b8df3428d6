"""The records of a trace as arrays, in the order that attribution needs.

`device_ops` holds a device's operations with their launches, `host_slices` the calls and annotations of the host, and
the waits of streams for events of other streams.
"""
