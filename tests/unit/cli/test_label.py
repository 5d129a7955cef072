"""What the command line says of the answer cache."""

import pytest
from tiermesh.api.router.v1 import router_pb2
from tiermesh.client.cli._label import finding_words

EXACT, SEMANTIC = router_pb2.CACHE_LAYER_EXACT, router_pb2.CACHE_LAYER_SEMANTIC


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        ({}, ""),
        ({"layer": EXACT}, ": exact"),
        ({"layer": EXACT, "stale": True}, ": exact; stale: it is made anew behind the answer"),
        (
            {"layer": SEMANTIC, "similarity": 0.934, "threshold": 0.8, "passed_guards": ["code", "polarity"]},
            ": semantic; nearest question 0.93 alike, 0.80 needed; passed code, polarity",
        ),
        (
            {"similarity": 0.97, "threshold": 0.8, "passed_guards": ["code"], "refused_by": "polarity"},
            ": nearest question 0.97 alike, 0.80 needed; passed code; refused by polarity",
        ),
        ({"refused_by": "time"}, ": refused by time"),
    ],
)
def test_a_finding_in_words(finding, said):
    assert finding_words(router_pb2.CacheFinding(**finding)) == said
