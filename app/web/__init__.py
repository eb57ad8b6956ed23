"""What every HTTP route shares: authentication, idempotency, problems, paging, ETags."""
