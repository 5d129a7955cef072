"""What people say around a question: greetings, asking whether one may ask, thanks.

Word lists know such phrases as they stand; the rules here know how they are built: somebody, who can or would or knows,
tells or explains or shows, and then the question. Only what stands before a question word goes, so that what is asked
of the one who answers (`explain it in one sentence`) stays.
"""

from __future__ import annotations

import re

_SOMEBODY = (
    r"(?:you|someone|somebody|anyone|anybody|any ?one|anyone here|any of you|somebody here|you guys|you all|one of you)"
)
_ME = r"(?: (?:to |with )?(?:me|us))?"
_SAY = (
    r"(?:tell|explain|show|teach|clarify|describe|enlighten|educate|guide|instruct|outline|elaborate on|"
    r"help (?:me|us) (?:to )?(?:understand|figure out|find out|see|know|learn|with)|shed (?:some )?light on|"
    r"walk (?:me|us) through|share|give (?:me|us) (?:an? )?(?:explanation|idea|overview) (?:of|about)|say|point out|summari[sz]e)"
)
_WILL = r"(?:can|could|would|will|might|may)"
_WH = r"(?=(?:how|what|which|who|whom|whose|when|where|why)\b)"
_STARTS = (
    # Hello, and sorry.
    r"(?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|dear \w+)(?: (?:there|everyone|all|guys|team|folks|again|support|everybody))*\b[,.!:; -]*",
    r"(?:sorry|excuse me|pardon(?: me)?|apologies|my apologies)(?: (?:to bother you|for (?:the|this|asking|bothering)[\w ]*?|if [\w ]+?))?[,.!:;-]+ *(?:but )?",
    r"(?:just |a |one |another |my |this is a )*(?:quick|small|simple|silly|stupid|dumb|random|basic|short|noob|newbie|general|maybe a stupid|probably a stupid|little)(?: \w+)? question(?: (?:here|for you))?[,.!:;-]+ *",
    r"(?:i have|i've got|i got|here is|there is|got) an? (?:\w+ )?question[,.!:;-]+ *",
    r"(?:question|help|urgent|fyi|btw|by the way|ok|okay|alright|right|well|so|um|uh|hmm|oh|please|pls|plz)[,.!:;-]+ *",
    r"(?:just |i am just |i was just |just out of )?(?:wondering|curious|asking|curiosity)[,.!:;-]+ *",
    r"(?:please|pls|plz|kindly|so|ok|okay|and) (?=\w)",
    # What one would like to be told.
    rf"(?:please |pls |kindly )?{_WILL} {_SOMEBODY} (?:please |pls |kindly |possibly |maybe |perhaps |quickly |briefly |just )*{_SAY}{_ME} (?:please )?(?:about |as to |exactly )?{_WH}",
    rf"{_WILL} {_SOMEBODY} (?:please |kindly )?help(?: me| us)?(?: out)?(?: with)? {_WH}",
    rf"would {_SOMEBODY} mind (?:telling|explaining|showing|teaching|reminding|sharing|clarifying|describing){_ME} (?:about )?{_WH}",
    rf"(?:do|does|did|would) {_SOMEBODY} (?:(?:happen|care) to |by (?:any )?chance |actually |perhaps |maybe )*(?:know|remember|recall|understand|have (?:an?y? )?(?:idea|clue)(?: about| of)?) {_WH}",
    rf"(?:do |does )?(?:you |anyone |anybody )?(?:have |got )?(?:any|an) (?:idea|ideas|clue|thoughts?)(?: about| on| as to)? {_WH}",
    rf"is {_SOMEBODY} able to {_SAY}{_ME} {_WH}",
    rf"(?:i|we) (?:was|am|were|are|have been|had been) (?:also |just |really |always |a bit |quite )*(?:wondering|curious|asking myself|confused|unsure|not sure|interested|trying to (?:find out|figure out|understand|learn|work out|see|know)|looking (?:to find out|to learn|to know|for information (?:on|about)|for (?:some )?(?:help|advice) (?:on|with)))(?: about| as to| in(?: knowing| learning)?| to know)? {_WH}",
    rf"(?:i|we) (?:would|want|need|wish|wanted|hope|hoped|would really|really want|really need|just want|just wanted)(?: (?:like|love|appreciate))? (?:to (?:know|learn|understand|ask|find out|figure out|see|hear|be told|get to know|inquire|check)|help (?:with |understanding |figuring out |to understand )?|some (?:help|advice|info|information) (?:on|with|about)|knowing)(?: about| as to)? {_WH}",
    rf"(?:i|we) (?:do|can|could|did) not (?:really |quite |fully |actually )?(?:know|understand|get|remember|recall|figure out|see|find out) (?:exactly )?{_WH}",
    rf"(?:i|we) (?:have no|am not sure|have not got a) ?(?:idea|clue)?(?: about| of)? {_WH}",
    rf"(?:i|we) forgot {_WH}",
    rf"(?:i|we) (?:was|were|am|are) hoping (?:that )?{_SOMEBODY} (?:can|could|would|might) {_SAY}{_ME} {_WH}",
    rf"it would be (?:great|nice|helpful|good) if {_SOMEBODY} (?:can|could|would) {_SAY}{_ME} {_WH}",
    rf"(?:please |pls |kindly |just |quickly |briefly |could you |can you )*{_SAY}{_ME} (?:please |briefly |quickly )?(?:about |as to |exactly )?{_WH}",
    r"(?:i|we) (?:want|need|would like|wish|am trying|are trying|would love|wanna) to (?:learn|know|understand|find out) (?:how )?(?=to \w)",
)
_ENDS = (
    (
        r"[\s]*[,.!?;:-][\s,.!?;:-]*(?:thank you|thanks|thx|tnx|ty|tia|cheers|many thanks|please|pls|plz|asap|please help|help please|help me please|please advise|"
        r"any (?:ideas?|help|suggestions?|tips|advice|thoughts)(?: would be (?:appreciated|great))?|anyone|anybody|regards|i need (?:some )?help|"
        r"i am (?:just )?curious|just (?:wondering|curious)|i wonder|do you know|can you (?:help|tell me|explain)|could you (?:help|tell me|explain)|help)"
        r"(?: (?:me|in advance|a lot|so much|very much|for (?:your|the|any) help|again|guys|everyone))*[\s.!?]*$"
    ),
    r"(?<!say)(?<!saying)(?<!mean)(?<!spell)(?<!write)(?<!word)(?<!for)(?<!pronounce) (?:please|pls|plz|asap|thx|thanks in advance)[\s.!?]*$",
)
_START = tuple(re.compile(rf"^\s*{pattern}") for pattern in _STARTS)
_END = tuple(re.compile(pattern) for pattern in _ENDS)
_MOST = 4
"""Most things that are said before a question."""
_LEAST = 3
"""Words that must be left: `tell me what` and `please help` are what is said."""


def without_preamble(text: str) -> str:
    """Returns an English question without what is said around it.

    Args:
        text: English in lower case, its short forms (`what's`) written out.
    """
    for _ in range(_MOST):
        before = text
        for pattern in _START:
            text = _cut(text, pattern)
        for pattern in _END:
            text = _cut(text, pattern)
        if text == before:
            break
    return text


def _cut(text: str, pattern: re.Pattern[str]) -> str:
    found = pattern.search(text)
    if not found or not found.group().strip():
        return text
    rest = text[found.end() :] if found.start() == 0 else text[: found.start()] + ("?" if "?" in found.group() else "")
    return rest if len(rest.split()) >= _LEAST else text
