"""The append-only Merkle log every fact goes into."""
