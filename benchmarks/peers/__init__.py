"""Owns the peers: what other libraries make of the same photographs, as their documents say."""
