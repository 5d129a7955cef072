"""Backends, by technology."""
