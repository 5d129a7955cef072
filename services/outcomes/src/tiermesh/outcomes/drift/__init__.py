"""How the distribution of requests, and how sure one is of them, has moved against a reference."""
