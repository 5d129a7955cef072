"""Judges how hard a request is."""
