"""What the rules say about receipts and scopes, when and why."""
