"""What routing learns from the outcomes of requests."""
