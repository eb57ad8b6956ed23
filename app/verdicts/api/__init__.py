"""Routes of verdicts, and those of receipts that judge."""
