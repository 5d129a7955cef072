"""Parts of the evaluation of routing; `benchmarks/routing_eval.py` runs them."""
