"""People, API keys and dashboard sessions."""
