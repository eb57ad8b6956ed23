"""Tests of the pure core: milliseconds, no service."""
