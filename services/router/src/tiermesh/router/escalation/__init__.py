"""When an answer is given up for a stronger tier's."""
