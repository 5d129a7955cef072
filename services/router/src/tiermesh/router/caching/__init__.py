"""What of a request is looked up in the answer cache, and what is kept."""
