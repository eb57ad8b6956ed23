"""Evidence taken away: periods and selections as bundles that an auditor verifies alone."""
