"""The transaction coordinator's core, by plain calls."""
