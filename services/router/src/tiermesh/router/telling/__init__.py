"""What a request's way is told as: ledger, label, span, metrics."""
