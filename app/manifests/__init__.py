"""Root documents found on the nodes, and the snapshots they form."""
