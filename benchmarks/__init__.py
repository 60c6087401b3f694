"""Owns the comparison of fastdata with the limits of the machine and with peers: ``make bench``."""
