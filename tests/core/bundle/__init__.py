"""The evidence bundle and its verifier."""
