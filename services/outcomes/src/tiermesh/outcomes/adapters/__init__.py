"""What the log of outcomes uses from elsewhere, one technology a module."""
