"""What the classifier flags in a prompt."""

from typing import get_args

from tiermesh.classifier.safety import FLAGS
from tiermesh.shared.config import SafetyFlag


def test_the_configuration_knows_every_flag_and_no_other():
    assert set(get_args(SafetyFlag)) == set(FLAGS)
