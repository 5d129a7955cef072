"""Keeps answers in Redis."""
