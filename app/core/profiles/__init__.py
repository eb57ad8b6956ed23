"""Deployment profiles: their documents judged, resolved, planned and compared; nothing is ever started."""
