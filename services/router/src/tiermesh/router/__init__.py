"""Decides where a request is answered."""
