"""Owns the tables, one module each."""
