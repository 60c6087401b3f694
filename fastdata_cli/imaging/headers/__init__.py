"""Owns reading the headers of picture files, one module for each container."""
