"""The one timing harness of fastdata."""
