"""Routes of profiles: documents, profiles, what is judged."""
