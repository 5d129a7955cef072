"""What became of requests, for the log of outcomes."""
