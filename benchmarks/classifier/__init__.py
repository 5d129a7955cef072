"""Parts of `benchmarks/classifier_speed.py`."""
