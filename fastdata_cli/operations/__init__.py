"""What fastdata does: one function each, from options to one frozen report."""
