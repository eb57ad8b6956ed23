"""Tables, one family per file."""
