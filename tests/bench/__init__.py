"""Measurements: `make bench BENCH=restore JSON=FILE`. Never run by pytest; see docs/PERFORMANCE.md."""
