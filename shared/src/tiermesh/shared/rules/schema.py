"""Schema of the rules file: routing rules, fixed answers and label sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from tiermesh.shared.rules.measure import TokenWeights
from tiermesh.shared.rules.patterns import check_pattern
from tiermesh.shared.rules.text import fold, phrase_key

RuleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Z][a-z]{3})?$")]
"""ISO 639-1 code, with an ISO 15924 script where two are written, such as `zh-Hant`."""
Score = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
TaskName = Literal[
    "greeting",
    "faq",
    "label",
    "summarise",
    "rewrite",
    "extract",
    "translate",
    "qa",
    "chat",
    "code",
    "math",
    "tool_use",
    "long_context",
    "planning",
]
"""`TaskType` of the classifier's contract, in lower case."""


def _has_words(phrase: str) -> str:
    if not phrase_key(phrase):
        raise ValueError(f"{phrase!r} has no words to match")
    return phrase


def _is_visible(keyword: str) -> str:
    if not fold(keyword):
        raise ValueError(f"{keyword!r} has nothing to match")
    return keyword


PatternText = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(check_pattern)]
Phrase = Annotated[str, Field(max_length=200), AfterValidator(_has_words)]
Keyword = Annotated[str, Field(max_length=100), AfterValidator(_is_visible)]
Answer = Annotated[str, Field(min_length=1, max_length=4000)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Structure(_Section):
    """What a request must look like; every key given must hold."""

    min_code_fences: Count | None = None
    """Blocks fenced by ``` in the last user message."""
    min_earlier_code_fences: Count | None = None
    """Blocks fenced by ``` in the turns before it: what follows is about that code."""
    min_numbered_steps: Count | None = None
    """Lines such as `1. …`, `step 2` or `第三步`."""
    min_list_items: Count | None = None
    """Lines that begin with `-`, `*` or `•`."""
    min_question_marks: Count | None = None
    min_turns: Count | None = None
    """User messages of the conversation, the last one included."""
    tool_history: bool | None = None
    """Whether a tool was called or has answered earlier in the conversation."""


class RoutingRule(_Section):
    """Says what kind of work a request is, or that it is harder than it looks."""

    name: RuleName
    any: tuple[PatternText, ...] = ()
    """At least one is found."""
    all: tuple[PatternText, ...] = ()
    """Each is found."""
    none: tuple[PatternText, ...] = ()
    """None is found."""
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """Estimated tokens of the whole conversation, at least."""
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    """Estimated tokens of the whole conversation, at most."""
    structure: Structure = Structure()
    languages: tuple[Language, ...] = ()
    """The most frequent language is one of these."""
    tenants: tuple[str, ...] = ()
    """Asked by one of these."""
    task_type: TaskName | None = None
    """None for a rule that only raises the complexity."""
    complexity: Score
    """0: a fixed answer, up to 0.5: a small model, above: a large one."""
    confidence: Score = 0.8
    """How often the rule is right about the task type."""
    priority: Annotated[int, Field(ge=0, le=1000)] = 100
    """The highest of the rules that match names the task type; equal ones, the first in the file."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        conditions = (self.any, self.all, self.none, self.languages, self.tenants)
        if (
            not any(conditions)
            and self.min_tokens is None
            and self.max_tokens is None
            and self.structure == Structure()
        ):
            raise ValueError(f"rule {self.name!r} has no condition and would match everything")
        if self.min_tokens is not None and self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens ({self.min_tokens}) must not exceed max_tokens ({self.max_tokens})")
        return self


class FixedAnswerPolicy(_Section):
    """When a fixed answer may be given at all. Entries may say otherwise for themselves."""

    with_system_prompt: bool = False
    """Whether it may be given although a system prompt asks for a manner of its own."""
    in_conversation: bool = False
    """Whether it may be given after earlier turns, which may have changed what is meant."""


_POLICY_KEYS = frozenset(FixedAnswerPolicy.model_fields)


class PolicyOverrides(_Section):
    """What an entry says about itself; None leaves it to the file."""

    with_system_prompt: bool | None = None
    in_conversation: bool | None = None


def policy_of(policy: FixedAnswerPolicy, entry: PolicyOverrides) -> FixedAnswerPolicy:
    """Returns the file's policy with an entry's own words put over it."""
    return policy.model_copy(update={key: value for key, value in entry if key in _POLICY_KEYS and value is not None})


class Greeting(PolicyOverrides):
    """Phrases that are a whole message, and what to say to them."""

    name: RuleName
    language: Language
    phrases: Annotated[tuple[Phrase, ...], Field(min_length=1)]
    answer: Answer


class FaqEntry(PolicyOverrides):
    """A question that has one answer, and all the ways to ask it that count."""

    name: RuleName
    questions: Annotated[dict[Language, Annotated[tuple[Phrase, ...], Field(min_length=1)]], Field(min_length=1)]
    answers: dict[Language, Answer]

    @model_validator(mode="after")
    def _answered(self) -> Self:
        unanswered = sorted(set(self.questions) - set(self.answers))
        if unanswered:
            raise ValueError(f"faq {self.name!r} has questions but no answer in: {', '.join(unanswered)}")
        return self


class Label(_Section):
    """One label of a set."""

    name: RuleName
    called: Annotated[dict[Language, tuple[Phrase, ...]], Field(min_length=1)]
    """What requests call it, by language."""
    keywords: dict[Language, tuple[Keyword, ...]] = {}
    """Words that are only said where this label is right."""
    examples: dict[Language, tuple[Phrase, ...]] = {}
    """Texts for which this label is right: what they are like gets it too, where no keyword decides."""

    @model_validator(mode="after")
    def _decidable(self) -> Self:
        if not any(self.keywords.values()) and not any(self.examples.values()):
            raise ValueError(f"label {self.name!r} has neither keywords nor examples, and so nothing to be decided by")
        return self


class LabelSet(PolicyOverrides):
    """Labels that exclude each other, for short texts whose words leave no doubt."""

    name: RuleName
    asked_as: dict[Language, tuple[Phrase, ...]] = {}
    """What requests call the question itself, such as `sentiment`."""
    doubts: bool = True
    """Whether a word of the file's `doubts` in the text leaves the decision to a model."""
    unlisted: bool = False
    """Whether a request may ask by the question's own name alone, as `asked_as` has it, and list no labels. It is
    answered with what the label is called first, in the language of the question."""
    likeness: Score | None = None
    """How like its examples a text has to be; None takes what nine of ten examples reach when compared with the others
    of their label."""
    lead: Score = 0.1
    """How much more like one label's examples than any other's; 0 answers more texts, and more of them wrongly."""
    out_of_scope: dict[Language, tuple[Phrase, ...]] = {}
    """Texts for which none of the labels is right: what is most like these is left to a model."""
    labels: Annotated[tuple[Label, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _refuse_twice("label names", (label.name for label in self.labels))
        for what in ("called", "keywords", "examples"):
            form = phrase_key if what == "examples" else fold
            by_label = [{form(w) for words in getattr(label, what).values() for w in words} for label in self.labels]
            _refuse_twice(f"{what}: words of label set {self.name!r}", (word for words in by_label for word in words))
        return self


class Politeness(_Section):
    """Words around a question that do not change it."""

    before: tuple[Phrase, ...] = ()
    after: tuple[Phrase, ...] = ()


class RulesFile(_Section):
    """The whole file."""

    token_weights: TokenWeights = TokenWeights()
    fixed_answers: FixedAnswerPolicy = FixedAnswerPolicy()
    rules: tuple[RoutingRule, ...] = ()
    greetings: tuple[Greeting, ...] = ()
    faq: tuple[FaqEntry, ...] = ()
    politeness: Politeness = Politeness()
    labels: tuple[LabelSet, ...] = ()
    doubts: dict[Language, tuple[Keyword, ...]] = {}
    """Negations, contrasts and conditions, which can turn a keyword's meaning round."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _refuse_twice("rule names", (rule.name for rule in self.rules))
        _refuse_twice("greeting names", (greeting.name for greeting in self.greetings))
        _refuse_twice("faq names", (entry.name for entry in self.faq))
        _refuse_twice("label set names", (labels.name for labels in self.labels))
        owners: dict[str, str] = {}
        for owner, phrase in self._phrases():
            other = owners.setdefault(phrase_key(phrase), owner)
            if other != owner:
                raise ValueError(f"{phrase!r} has two answers, {other} and {owner}; remove it from one of them")
        return self

    def _phrases(self) -> Iterator[tuple[str, str]]:
        for greeting in self.greetings:
            for phrase in greeting.phrases:
                yield f"greeting {greeting.name!r}", phrase
        for entry in self.faq:
            for language, questions in entry.questions.items():
                for phrase in questions:
                    yield f"faq {entry.name!r} ({language})", phrase


def _refuse_twice(what: str, names: Iterator[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} must be unique; used twice: {name}")
        seen.add(name)
