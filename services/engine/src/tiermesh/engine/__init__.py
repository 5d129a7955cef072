"""Runs one model tier."""
