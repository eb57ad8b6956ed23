"""The reading half of the store: documents, streams, lookup, decoding, hostile files."""
