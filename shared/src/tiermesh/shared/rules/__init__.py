"""The rules file, and what it says about a text: shared by the classifier and the rules tier."""

from tiermesh.shared.rules.book import CompiledRule, FixedAnswer, RuleBook
from tiermesh.shared.rules.fixed import Turn, match_fixed
from tiermesh.shared.rules.languages import UNDETERMINED, detect_languages
from tiermesh.shared.rules.load import load_rules, parse_rules
from tiermesh.shared.rules.measure import TextCounts, TokenWeights, estimate_tokens, measure
from tiermesh.shared.rules.patterns import Patterns, Search
from tiermesh.shared.rules.schema import RoutingRule, Structure, TaskName
from tiermesh.shared.rules.text import fold, phrase_key
from tiermesh.shared.rules.watch import CurrentRules, follow_rules, follow_rules_file

__all__ = [
    "UNDETERMINED",
    "CompiledRule",
    "CurrentRules",
    "FixedAnswer",
    "Patterns",
    "RoutingRule",
    "RuleBook",
    "Search",
    "Structure",
    "TaskName",
    "TextCounts",
    "TokenWeights",
    "Turn",
    "detect_languages",
    "estimate_tokens",
    "fold",
    "follow_rules",
    "follow_rules_file",
    "load_rules",
    "match_fixed",
    "measure",
    "parse_rules",
    "phrase_key",
]
