"""The parts of a simulated job: devices, kernels, communication, costs, and the records of a profiler."""
