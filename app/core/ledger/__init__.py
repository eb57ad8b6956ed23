"""The Merkle log's arithmetic: hashes, proofs, signed heads, leaves. No clock, no key file, no database."""
