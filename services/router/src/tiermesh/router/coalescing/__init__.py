"""Identical requests that are under way at the same time share one run."""
