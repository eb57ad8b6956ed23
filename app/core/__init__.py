"""The pure core: bytes in, value or error out. No request, database, task, environment variable or clock."""
