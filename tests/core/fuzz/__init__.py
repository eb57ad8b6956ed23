"""Fuzzing of the store's readers: every kind of document and object, bent in bytes and in structure.

By hand: ``python -m tests.core.fuzz --minutes 10``. In the tests: a bounded number of examples per entry.
"""
