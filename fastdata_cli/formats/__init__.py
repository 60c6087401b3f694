"""One format, one file, one row in ``registry.BUILT_IN``."""
