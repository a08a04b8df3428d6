"""The causes of a device's time: rows that add up to its span.

`ledger` builds the rows, `launch delay` splits the gaps that a late host caused, `device_waits` splits the gaps
that waits on the device caused, `dependencies` finds the operations that each operation had to wait for.
"""
