"""The CUDA device: the only files that name CuPy; imported late, in the rank process."""
