"""From evidence documents to facts, and from facts to a verdict."""
