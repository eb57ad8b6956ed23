"""HTML over all nouns: one file per page, one file of SQL, one of templates' filters."""
