"""A training set for a small model: typical requests of the log, with a large tier's answers."""
