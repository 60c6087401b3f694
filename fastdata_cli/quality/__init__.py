"""Judging images by measurement: scores, thresholds, duplicates."""
