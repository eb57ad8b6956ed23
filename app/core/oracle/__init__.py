"""The semantic oracle: a question that only rightly placed pages can answer, and what its answer means."""
