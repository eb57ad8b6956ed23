"""One rank of one restore: plan, read, place, report."""
