"""SQL of the ledger: the log itself, and the views of the tables it covers."""
