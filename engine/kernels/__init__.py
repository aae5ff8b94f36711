"""Device kernels, each beside a plain-torch twin that tests and other devices use.

Triton is imported when a kernel first runs on a GPU: ``import engine`` does without it.
"""
