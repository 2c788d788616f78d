"""Kernels of our own: for each operation a plain fp32 version beside the fast one, and one dispatcher."""
