"""Restores: one order over all ranks, from request to released pages."""
