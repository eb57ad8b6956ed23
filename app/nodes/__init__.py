"""Machines that run ranks, and their devices."""
