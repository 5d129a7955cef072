"""What the log of outcomes can tell, on recorded outcomes of two real models."""
