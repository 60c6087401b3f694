"""Ways to run one function over many items: bounded, in order."""
