"""Submitted evidence documents, kept byte for byte."""
