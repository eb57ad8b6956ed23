"""The CUDA device against the host device: on a GPU where there is one, over a model of streams everywhere.

Needs numpy, cupy, pytest and hypothesis only (`make gpu-check` runs it where nothing else is installed).
"""
