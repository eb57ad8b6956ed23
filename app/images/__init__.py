"""Runtime images under their three digests."""
