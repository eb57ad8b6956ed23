"""Processes around the control plane: rank workers on GPU nodes and the control worker."""
