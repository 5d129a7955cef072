"""Keeps what came of requests and what was thought of the answers, and tells what can be learnt from it.

adapters/sqlite   the log on disk
log               files records and opinions, joins them, lists them
servicer          OutcomeService
redaction         takes personal data out of texts
drift/            how the distribution of requests has moved
export, parquet   records as files
models            which tier is enough for which kind of work
distill/          a training set for a small model
commands/         the command line's
"""
