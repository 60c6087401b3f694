"""clean: judges images, one verdict each in the order of the source, and reports on all of them."""
