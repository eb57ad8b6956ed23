"""Extractors: one family of documents each, from a document to facts."""
