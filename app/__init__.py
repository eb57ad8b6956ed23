"""sparkgate: decides, with evidence, which runtime image restores a persisted KV cache correctly."""
