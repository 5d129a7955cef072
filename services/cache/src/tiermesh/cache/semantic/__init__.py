"""Answers to questions in other words."""
