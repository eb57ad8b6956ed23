"""The evidence bundle: a deterministic archive of what the ledger covers, and its verifier.

The log is the spine. Every leaf comes with the rows it covers; tables, statements, report and verdicts are
derived from this stream by the same code when a bundle is made and when it is checked.
"""
