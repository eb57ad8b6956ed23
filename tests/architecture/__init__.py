"""The guards of the architecture: one table, and what is generated from it or checked against it."""
