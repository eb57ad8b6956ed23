"""Questions that restores are asked, kept under their SHA-256."""
