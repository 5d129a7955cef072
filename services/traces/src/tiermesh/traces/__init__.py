"""Keeps the last traces for the terminal and forwards them."""
