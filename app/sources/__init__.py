"""Source identities: repository, commit, tree, source SHA-256."""
