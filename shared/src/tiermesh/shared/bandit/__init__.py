"""A contextual bandit over tiers: what it sees, what it has learnt, how it chooses, and what that would have been worth.

Pure but for `state` and `report`, which read and write one file each. The router chooses with it
(`tiermesh.router.learning.bandit`), `tiermesh replay` judges it before it may go live. Needs numpy, which those who use it depend on.
"""

from tiermesh.shared.bandit.choice import BanditChoice, Option, choose
from tiermesh.shared.bandit.context import CONTEXT_VERSION, NAMES, Seen, context_of
from tiermesh.shared.bandit.learning import learn, lesson_of, seen_of
from tiermesh.shared.bandit.posterior import Posterior
from tiermesh.shared.bandit.state import Learnt, StateDamaged, load_learnt, save_learnt

__all__ = [
    "CONTEXT_VERSION",
    "NAMES",
    "BanditChoice",
    "Learnt",
    "Option",
    "Posterior",
    "Seen",
    "StateDamaged",
    "choose",
    "context_of",
    "learn",
    "lesson_of",
    "load_learnt",
    "save_learnt",
    "seen_of",
]
