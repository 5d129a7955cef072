"""Asks a mesh for its models and for an answer, as callers do; run by `helm test` with its URL and a file of keys."""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

QUESTION = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 32}
PATIENCE_S = 60
# The certificate of the ingress is for its public name, and this asks by another one.
TLS = ssl._create_unverified_context()  # noqa: S323 -- what is sent goes to a Service of this very namespace


def ask(url, key, body=None):
    """Returns headers and JSON of an answer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)  # noqa: S310 -- the mesh's own
    with urllib.request.urlopen(request, timeout=30, context=TLS) as answer:  # noqa: S310 -- as above
        return answer.headers, json.load(answer)


def main(url, key_file):
    """Tells what came; a mesh that is still coming up is asked again."""
    key = Path(key_file).read_text(encoding="utf-8").replace(",", "\n").split()[0]
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            _, models = ask(f"{url}/v1/models", key)
            headers, answer = ask(f"{url}/v1/chat/completions", key, QUESTION)
            break
        except OSError as error:
            is_refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if is_refused or time.monotonic() > ends:
                sys.exit(f"{url}: {error}")
            print(f"{url}: {error}; asked again", flush=True)
            time.sleep(0.5)
    print("models:", ", ".join(model["id"] for model in models["data"]))
    print("tier:", headers["x-tiermesh-tier"], "answer:", answer["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main(*sys.argv[1:])
