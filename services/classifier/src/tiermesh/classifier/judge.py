"""Rules first: the judgement as a function of the rules file and the conversation.

1. A fixed answer that may be given decides everything: complexity 0.
2. Otherwise the strongest matching rule that names a task type decides the type; its complexity
   is raised to that of every matching rule that names none.
3. A learnt model, where there is one, is asked about what the rules are not `sure` of, and decides if it is surer than
   they are. If it cannot answer, the rules' judgement stands and says so.
4. What nothing matches is conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiermesh.classifier.features import HEAD_CHARS, TAIL_CHARS, Features, Turn
from tiermesh.classifier.judgement import Judgement
from tiermesh.classifier.prediction import Prediction, Unanswered
from tiermesh.shared.rules import CompiledRule, FixedAnswer, RuleBook, Search, Structure, match_fixed

SURE = 0.7
"""Rules at least this confident are not put to a learnt model."""

LEAST = 0.4
"""A learnt model less confident than this overrules nothing, not even the default."""

_DEFAULT_COMPLEXITY = 0.3
_DEFAULT_CONFIDENCE = 0.4
_WITHHELD_COMPLEXITY = 0.2
"""A greeting, say, under a system prompt: it has no fixed answer, but any model will do."""
_AGREEMENT = 0.05
_DISAGREEMENT = 0.1
_NEAR_PRIORITY = 30
"""Rules of other task types count as disagreeing if their priority is this close."""


def judge(book: RuleBook, turns: Sequence[Turn], features: Features, *, tenant: str) -> Judgement:
    """Judges a conversation by the rules alone. Never raises, whatever the text.

    Args:
        book: The rules in force.
        turns: The conversation, oldest first.
        features: What `read_features` says of it.
        tenant: Who asks.
    """
    # What is folded is the last user message, whole as long as it is short enough to have a fixed answer.
    folded = features.text if features.counts.chars <= HEAD_CHARS + TAIL_CHARS else None
    fixed = match_fixed(book, turns, folded)
    if fixed is not None:
        return Judgement(fixed.kind, 0.0, 1.0, (fixed.rule,), "rules")
    judged = _by_rules(book, features, tenant)
    withheld = _withheld(book, turns, folded)
    if withheld is not None and judged.complexity <= _DEFAULT_COMPLEXITY:
        return replace(
            judged,
            task_type=withheld.kind,
            complexity=_WITHHELD_COMPLEXITY,
            confidence=0.9,
            rules=(withheld.rule, *judged.rules),
            source="rules",
        )
    return judged


def sure(judged: Judgement) -> bool:
    """Whether a judgement by rules needs no second opinion."""
    return judged.confidence >= SURE


def with_answer(judged: Judgement, answer: Prediction | Unanswered) -> Judgement:
    """Returns a judgement by rules together with what the learnt model says to it.

    A judgement that is sure stays as it is, and is only joined by what the model predicts.
    """
    if isinstance(answer, Unanswered):
        if sure(judged):
            return judged
        return replace(judged, source="rules", fallback_reason=answer.reason)
    if sure(judged) or answer.task_confidence < max(LEAST, judged.confidence):
        return replace(judged, prediction=answer)
    raised = judged.complexity if judged.rules else 0.0
    return replace(
        judged,
        task_type=answer.task_type,
        # What rules ask for at least, such as for long prompts, stays asked for.
        complexity=max(answer.complexity, raised),
        confidence=answer.task_confidence,
        source="model",
        prediction=answer,
    )


def _withheld(book: RuleBook, turns: Sequence[Turn], folded: str | None) -> FixedAnswer | None:
    """Returns the fixed answer that the last message alone would have."""
    return match_fixed(book, turns[-1:], folded) if len(turns) > 1 else None


def _by_rules(book: RuleBook, features: Features, tenant: str) -> Judgement:
    search = book.patterns.search(features.text)
    possible = search.sifted.possible
    matched = [
        rule.spec
        for rule in book.rules
        # Most rules end here: what one pass over the text has not seen need not be asked about.
        if (not rule.any or not possible.isdisjoint(rule.any))
        and possible.issuperset(rule.all)
        and _matches(rule, features, search, tenant)
    ]
    naming = [spec for spec in matched if spec.task_type is not None]
    raised = max((spec.complexity for spec in matched if spec.task_type is None), default=0.0)
    if not naming or naming[0].task_type is None:
        names = tuple(spec.name for spec in matched)
        complexity = max(_DEFAULT_COMPLEXITY, raised)
        return Judgement("chat", complexity, _DEFAULT_CONFIDENCE, names, "default", search.overruns)
    strongest, *others = naming
    near = [spec for spec in others if strongest.priority - spec.priority <= _NEAR_PRIORITY]
    agreeing = sum(spec.task_type == strongest.task_type for spec in near)
    confidence = strongest.confidence + _AGREEMENT * agreeing - _DISAGREEMENT * (len(near) - agreeing)
    return Judgement(
        task_type=naming[0].task_type,
        complexity=max(strongest.complexity, raised),
        confidence=round(min(1.0, max(0.1, confidence)), 4),
        rules=(strongest.name, *(spec.name for spec in matched if spec is not strongest)),
        source="rules",
        overruns=search.overruns,
    )


def _matches(rule: CompiledRule, features: Features, search: Search, tenant: str) -> bool:
    spec = rule.spec
    # The cheap conditions first; patterns are looked for only where everything else holds.
    if spec.min_tokens is not None and features.prompt_tokens < spec.min_tokens:
        return False
    if spec.max_tokens is not None and features.prompt_tokens > spec.max_tokens:
        return False
    if spec.tenants and tenant not in spec.tenants:
        return False
    if spec.languages and not (features.languages and features.languages[0] in spec.languages):
        return False
    if rule.structured and not _looks_like(spec.structure, features):
        return False
    if rule.any and not search.found_any(rule.any):
        return False
    if rule.all and not search.found_all(rule.all):
        return False
    return not (rule.none and search.found_any(rule.none))


def _looks_like(structure: Structure, features: Features) -> bool:
    if structure.tool_history is not None and structure.tool_history != features.tool_history:
        return False
    least = (
        (structure.min_code_fences, features.code_fences),
        (structure.min_earlier_code_fences, features.earlier_code_fences),
        (structure.min_numbered_steps, features.numbered_steps),
        (structure.min_list_items, features.list_items),
        (structure.min_question_marks, features.question_marks),
        (structure.min_turns, features.turns),
    )
    return all(wanted is None or has >= wanted for wanted, has in least)
