"""One format, one module or package, one row in ``registry.BUILT_IN``.

A package's ``__init__`` has the layout on disk and the ``FORMAT`` row; ``base`` has what all share.
"""
