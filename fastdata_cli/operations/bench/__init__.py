"""bench: how fast a dataset arrives in training batches, where the time goes, what to change."""
