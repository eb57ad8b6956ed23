"""The SparkCache rank-local store: its documents, streams and files."""
