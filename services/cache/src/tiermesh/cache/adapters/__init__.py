"""Technologies behind the ports."""
