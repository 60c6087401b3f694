"""The version of the distribution, alone so that it can be read without importing anything."""

__version__ = "0.1.0"
