"""Page layouts, kept under their layout_sha256."""
