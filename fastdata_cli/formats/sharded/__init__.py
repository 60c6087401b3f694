"""What formats share that store a dataset in one file or in shards, with an index inside each.

A format describes its files by a ``ShardKind``, writes with a ``ShardedWriter`` and reads with a
``ShardedReader``.
"""
