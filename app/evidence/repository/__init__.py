"""SQL of evidence: the exports themselves, and what goes into a bundle, streamed."""
