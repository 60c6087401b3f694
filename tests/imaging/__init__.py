"""Tests of fastdata_cli.imaging, with pictures made by code."""
