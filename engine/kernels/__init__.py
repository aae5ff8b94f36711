"""Kernels of a device, each beside a plain-torch twin that tests and other devices use.

What compiles them is imported when one first runs, Triton on a GPU and numba on a CPU: ``import
engine`` does without either.
"""
