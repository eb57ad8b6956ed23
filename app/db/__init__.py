"""Engine, sessions and the declarative base."""
