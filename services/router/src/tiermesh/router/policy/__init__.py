"""Which tiers may answer a request, and in which order: pure functions of values."""
