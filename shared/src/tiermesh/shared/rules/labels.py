"""Short label matching: a text, a few labels given by the caller, and a decision by plain keywords.

A prompt counts only if every word of it is accounted for: the labels, all of one known set; the
text to judge; and a frame made of words that ask for nothing but a label. One word more, such as
"and explain why", and the prompt is left to a model. The decision counts only if keywords of
exactly one label are in the text and nothing in it may turn them round. Where no keyword is in it, and
the labels have examples, the text gets the label whose examples it is clearly like (`tiermesh.shared.rules.examples`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import regex
from tiermesh.shared.rules.examples import ExampleIndex
from tiermesh.shared.rules.schema import FixedAnswerPolicy, LabelSet, RulesFile, policy_of
from tiermesh.shared.rules.text import WRITTEN_TOGETHER, fold, unify

MAX_PROMPT_CHARS = 1000
MAX_TEXT_CHARS = 300

_FRAME_WORDS = (
    # English: asking, the thing asked about, choosing, and how to answer.
    "please|can you|could you|classify|classifies|label|labels|labelled|labeled|categori[sz]e|tag|tags|determine|decide|"
    "identify|detect|assign|choose|pick|select|judge|tell me|predict|what|which|whether|if|is|are|be|does|do|belongs?|express(?:es)?|"
    "the|a|an|this|that|it|its|following|below|above|given|provided|next|"
    "text|sentence|review|message|comment|statement|tweet|post|feedback|ticket|email|e-mail|input|request|customer|user|"
    "user's|customer's|product|short|"
    "as|into|in|to|with|of|for|from|by|between|among|or|and|either|one|single|exactly|only|just|best|most|fits?|applies|matches|"
    "categor(?:y|ies)|class|classes|classification|option|options|answer|answers|reply|respond|output|return|write|word|"
    "name|these|those|possible|available|must|should|your|using|use|"
    # Chinese.
    "请问|请你|请|帮我|帮忙|麻烦|把|将|对|给|从|在|以下|下面|下列|如下|上面|这条|这段|这句|这个|该|一条|一段|一句|的|"
    "文本|句子|句|话|评论|评价|内容|留言|消息|反馈|工单|文字|用户|客户|顾客|买家|"
    "判断为|判断|判定|分类为|分类到|分类成|分类|归类为|归类到|归类|归为|分为|分到|标注为|标注|标记为|标记|打上|打标签|识别|属于|是|为|"
    "哪一类|哪一个|哪一种|哪类|哪种|哪个|什么|类别|类型|标签|选项|可选|分别|其中|之一|一个|一种|一类|中|里|选择|选出|选|挑选|"
    "还是|或者|或|和|与|以及|只需|只要|只|仅|直接|就|回答|回复|输出|给出|返回|名称|名|词|即可|就行|吗|呢|進行|进行|做|以|到"
)
_FRAME = regex.compile(
    rf"(?:(?<![\p{{L}}\p{{N}}])(?:{_FRAME_WORDS})(?![a-z\p{{N}}])|(?<=[{WRITTEN_TOGETHER}])(?:{_FRAME_WORDS}))|[\s,.:;?!/|()\[\]{{}}\"'\-]",
    regex.IGNORECASE,
)
# What is left of a text without its frame words is known at the first word that is none.
_FRAMES = regex.compile(rf"(?>{_FRAME.pattern})*+", regex.IGNORECASE)
_ASKS = regex.compile(
    r"\b(?:classif\w+|label\w*|categor\w+|tag|determine|decide|identify|detect|assign|choose|pick|select|judge|predict|is|what|which|class(?:es)?|options?)\b"
    r"|分类|归类|归为|分为|判断|判定|标注|标记|标签|识别|属于|哪|类别|选|还是|是",
    regex.IGNORECASE,
)
_QUOTED = regex.compile(r'"([^"\n]+)"|(?<!\w)\'([^\n]+?)\'(?!\w)')
_MARKED = regex.compile(
    r"(?:^|(?<=[.:;?!\n,)\]])\s*)(?:text|review|message|comment|sentence|input|tweet|feedback|文本|内容|评论|句子|留言|消息|原文|文字)\s*:\s*",
    regex.IGNORECASE,
)
_HAN = regex.compile(r"\p{Han}")
_CUTS = regex.compile(r":\s*|[?.]\s+|(?<=[\p{Han})\]])[?.]|\n+")
_SENTENCES = regex.compile(r"(?<=[.!?\n])\s*")
_INSTRUCTS = regex.compile(
    r"\b(?:answer|reply|respond|output|return|explain|explanation|reason|because|json|format|translate|summari[sz]e|label|classify|category|step by step|confidence)\b"
    r"|回答|回复|输出|返回|解释|理由|原因|格式|翻译|总结|标签|分类|类别|置信度|打分",
    regex.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LabelPrompt:
    """A request to choose one of some labels for a text."""

    label_set: str
    text: str
    choices: Mapping[str, str]
    """Name of each label offered, to how the caller spells it."""
    language: str
    """In which the labels are given."""


@dataclass(frozen=True, slots=True)
class CompiledLabelSet:
    """A label set with its words compiled."""

    name: str
    policy: FixedAnswerPolicy
    called: regex.Pattern[str]
    names: Mapping[str, tuple[str, str]]
    """Folded spelling to label name and language."""
    asked_as: regex.Pattern[str] | None
    keywords: Mapping[str, regex.Pattern[str]]
    doubts: regex.Pattern[str] | None
    examples: ExampleIndex | None
    likeness: float
    """Least likeness to a label's examples."""
    lead: float
    """Least lead over any other label's."""
    unlisted: Mapping[str, Mapping[str, str]]
    """By language, what each label is called where a request lists none; empty where it has to."""
    questions: tuple[str, ...]
    """What requests call the question, folded."""
    cut_names: bool
    """Whether a label or question has in its name what tells instructions from text, such as a colon."""


def compile_labels(file: RulesFile) -> tuple[CompiledLabelSet, ...]:
    """Compiles the label sets of a rules file."""
    return tuple(_compile(file, labels) for labels in file.labels)


def read_label_prompt(sets: Sequence[CompiledLabelSet], prompt: str, folded: str) -> LabelPrompt | None:
    """Returns the text and the labels of a prompt that asks for a label and for nothing else.

    Args:
        sets: The label sets in force.
        prompt: The whole message.
        folded: The same as `fold` returns it.
    """
    if len(prompt) > MAX_PROMPT_CHARS:
        return None
    prompt = prompt.strip()
    unified = False
    for labels in sets:
        # Nearly every prompt ends here: plain look-ups are cheaper than any pattern.
        if sum(name in folded for name in labels.names) < 2 and not (
            labels.unlisted and any(question in folded for question in labels.questions)
        ):
            continue
        if not unified:
            prompt, unified = unify(prompt).strip(), True
        for frame, text in _splits(labels, prompt):
            choices = _choices(labels, frame)
            if choices is not None and 0 < len(text) <= MAX_TEXT_CHARS:
                return LabelPrompt(labels.name, text, choices[0], choices[1])
    return None


def judge_label(labels: CompiledLabelSet, prompt: LabelPrompt) -> str | None:
    """Returns the right label as the caller spells it, or None where the words leave a doubt."""
    text = fold(prompt.text)
    spoken_for = [name for name, keywords in labels.keywords.items() if keywords.search(text)]
    if not spoken_for:
        return _judge_by_examples(labels, prompt, text)
    if len(spoken_for) != 1 or spoken_for[0] not in prompt.choices:
        return None
    # A negation that is part of a keyword ("does not work") is meant; one beside it may turn it round.
    rest = labels.keywords[spoken_for[0]].sub(" ", text)
    if labels.doubts is not None and labels.doubts.search(rest):
        return None
    return prompt.choices[spoken_for[0]]


def _judge_by_examples(labels: CompiledLabelSet, prompt: LabelPrompt, text: str) -> str | None:
    if labels.examples is None or (labels.doubts is not None and labels.doubts.search(text)):
        return None
    # Among all labels and not only those offered: a text that is most like another label is none of these.
    found = labels.examples.nearest(text)
    if found.label is None or found.likeness < labels.likeness or found.lead < labels.lead:
        return None
    return prompt.choices.get(found.label)


def _splits(labels: CompiledLabelSet, prompt: str) -> Iterator[tuple[str, str]]:
    """Yields the ways to tell the frame of a prompt from the text to judge."""
    bare = _QUOTED.sub(lambda m: _inside(m) if fold(_inside(m)) in labels.names else m.group(), prompt)
    quoted = list(_QUOTED.finditer(bare))
    if len(quoted) > 1:
        # Several texts want several labels.
        return
    if quoted:
        match = quoted[0]
        yield f"{bare[: match.start()]} {bare[match.end() :]}", _inside(match).strip()
        return
    marked = _MARKED.search(bare)
    for cut in [marked] if marked else _CUTS.finditer(bare):
        if not _accounted(labels, bare[: cut.start()]):
            # What has a word too many before one cut has it before all later ones, unless a label goes over the cut.
            if labels.cut_names:
                continue
            return
        before, text = bare[: cut.start()], bare[cut.end() :].strip()
        frame, text = _without_closing(labels, before, text)
        # Lines may be several texts, and an instruction is no text.
        if "\n" not in text and not _INSTRUCTS.search(text):
            yield frame, text


def _without_closing(labels: CompiledLabelSet, frame: str, text: str) -> tuple[str, str]:
    """Moves closing sentences that only say how to answer, such as `Label:`, from the text to the frame."""
    while True:
        *body, last = [part for part in _SENTENCES.split(text) if part] or [""]
        if not body or (not _INSTRUCTS.search(last) and not _names_question(labels, last)):
            return frame, text
        if not _accounted(labels, last):
            return frame, text
        frame, text = f"{frame} {last}", text[: text.rindex(last)].strip()


def _names_question(labels: CompiledLabelSet, sentence: str) -> bool:
    return labels.asked_as is not None and labels.asked_as.search(sentence) is not None


def _accounted(labels: CompiledLabelSet, frame: str) -> bool:
    rest = labels.called.sub(" ", frame)
    if labels.asked_as is not None:
        rest = labels.asked_as.sub(" ", rest)
    return _FRAMES.fullmatch(rest) is not None


def _choices(labels: CompiledLabelSet, frame: str) -> tuple[dict[str, str], str] | None:
    """Returns the labels a frame offers and their language, or None if it says anything else."""
    choices: dict[str, str] = {}
    language = ""
    for match in labels.called.finditer(frame):
        name, language = labels.names[fold(match.group())]
        choices.setdefault(name, match.group())
    if not choices and labels.unlisted and _names_question(labels, frame) and _accounted(labels, frame):
        language = "zh" if _HAN.search(frame) and "zh" in labels.unlisted else next(iter(labels.unlisted))
        return dict(labels.unlisted[language]), language
    if len(choices) < 2 or not _accounted(labels, frame) or not _asks(labels, frame):
        return None
    return choices, language


def _asks(labels: CompiledLabelSet, frame: str) -> bool:
    return _names_question(labels, frame) or _ASKS.search(labels.called.sub(" ", frame)) is not None


def _inside(match: regex.Match[str]) -> str:
    return match.group(1) or match.group(2) or ""


def _compile(file: RulesFile, labels: LabelSet) -> CompiledLabelSet:
    names = {
        fold(word): (label.name, language)
        for label in labels.labels
        for language, words in label.called.items()
        for word in words
    }
    asked_as = [word for words in labels.asked_as.values() for word in words]
    index = _examples(labels)
    likeness = labels.likeness if labels.likeness is not None else index.threshold if index is not None else 1.0
    doubts = [word for words in file.doubts.values() for word in words] if labels.doubts else []
    return CompiledLabelSet(
        name=labels.name,
        policy=policy_of(file.fixed_answers, labels),
        called=_words(names),
        names=names,
        asked_as=_words(asked_as) if asked_as else None,
        keywords={
            label.name: _words(word for words in label.keywords.values() for word in words)
            for label in labels.labels
            if any(label.keywords.values())
        },
        doubts=_words(doubts) if doubts else None,
        examples=index,
        likeness=likeness,
        lead=labels.lead,
        unlisted=_unlisted(labels) if labels.unlisted else {},
        questions=tuple(fold(word) for word in asked_as),
        cut_names=any(_CUTS.search(name) for name in (*names, *map(fold, asked_as))),
    )


def _examples(labels: LabelSet) -> ExampleIndex | None:
    found = {
        label.name: [text for texts in label.examples.values() for text in texts]
        for label in labels.labels
        if any(label.examples.values())
    }
    if not found:
        return None
    return ExampleIndex(found, [text for texts in labels.out_of_scope.values() for text in texts])


def _unlisted(labels: LabelSet) -> dict[str, dict[str, str]]:
    """Returns, for each language in which every label is called something, what it is called first."""
    languages = [code for code in labels.labels[0].called if all(label.called.get(code) for label in labels.labels)]
    return {code: {label.name: label.called[code][0] for label in labels.labels} for code in languages}


def _words(words: Iterable[str]) -> regex.Pattern[str]:
    """Compiles words, longest first: whole ones where words are spaced, anywhere where they are not."""
    parts = []
    for word in sorted({fold(word) for word in words}, key=lambda word: (-len(word), word)):
        escaped = regex.escape(word, special_only=True)
        start = r"(?<![a-z0-9])" if word[0].isascii() and word[0].isalnum() else ""
        end = r"(?![a-z0-9])" if word[-1].isascii() and word[-1].isalnum() else ""
        parts.append(f"{start}{escaped}{end}")
    return regex.compile("|".join(parts), regex.IGNORECASE)
