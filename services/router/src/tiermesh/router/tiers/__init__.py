"""What is known of the tiers, and one call of one tier's engine."""
