"""English ways of asking that are one question in another dress.

A frame is what stands around what is asked for: `what is the easiest way to`, `is it allowed to`, `what is the
height of`. Word lists know frames word by word; the rules here know how they are built, so that a frame nobody
thought of is read too. Each rewrites to the plainest question there is: `how to`, `can i`, `how tall is`. No rule
touches what is asked for, so what differs there is still for the guards.
"""

from __future__ import annotations

import re

from tiermesh.cache.semantic.wordnet import is_verb

_PRAISE = (
    r"(?:(?:most|more|very|really|single|overall|generally) )*(?:best|easiest|simplest|right|correct|proper|recommended|good|"
    r"easy|simple|quick|effective|efficient|usual|normal|typical|ideal|standard|common|preferred|possible|practical|"
    r"reliable|appropriate|general|basic|great|suggested|official|optimal|accepted|convenient|exact|straightforward)"
)
_METHOD = r"(?:way|method|process|procedure|technique|trick|approach|step|means|strategy|secret|instruction|guideline|tip|tactic)(?:e?s)?"
_STEPS = r"(?:steps|methods?|ways?|techniques?|tricks?|approach(?:es)?|procedures?|process(?:es)?|actions?)"
_ANYONE = r"(?:i|we|you|one|someone|somebody|people|a person|anyone|customers|users)"
_OK = r"(?:possible|okay|ok|allowed|permitted|fine|acceptable|permissible|alright|all right|feasible)"
_WISE = r"(?:a good idea|a wise idea|advisable|recommended|wise|smart|sensible|customary|advised|a smart idea)"
_NEEDED = r"(?:necessary|required|needed|mandatory|compulsory|obligatory|essential)"
_DEED = r"(?!(?:the|a|an|my|your|our|this|that|it)\b)"
"""What follows is no thing: `the way to the station` is no deed."""
_TO_DO = rf"(?:(?:of|for|in|on|behind|about) (?=\w+ing\b)|to {_DEED}|for (?:me|us|you|someone|people|one) to )"
_MEASURES = {
    "height": "how tall is {}", "age": "how old is {}", "size": "how big is {}", "weight": "how heavy is {}",
    "speed": "how fast is {}", "length": "how long is {}", "duration": "how long is {}", "width": "how wide is {}",
    "depth": "how deep is {}", "strength": "how strong is {}", "thickness": "how thick is {}", "importance": "how important is {}",
    "accuracy": "how accurate is {}", "difficulty": "how hard is {}", "lifespan": "how long does {} live",
    "life span": "how long does {} live", "life expectancy": "how long does {} live",
    "population": "how many people live in {}", "location": "where is {}", "whereabouts": "where is {}",
    "price": "how much is {}", "cost": "how much is {}", "opening time": "when does {} open",
    "closing time": "when does {} close", "start date": "when does {} start", "start time": "when does {} start",
    "starting date": "when does {} start", "starting time": "when does {} start", "end date": "when does {} end",
    "end time": "when does {} end", "departure time": "when does {} leave", "arrival time": "when does {} arrive",
    "birthplace": "where was {} born", "place of birth": "where was {} born", "date of birth": "when was {} born",
    "birth date": "when was {} born", "number": "how many {}", "quantity": "how much {}", "amount": "how much {}",
}  # fmt: skip
_MEASURE = "|".join(sorted(_MEASURES, key=len, reverse=True))
_USUAL = r"(?:(?:usual|average|typical|total|exact|normal|approximate|general|overall|official|actual|standard) )?"
_MAKERS = {
    "founder": "founded", "inventor": "invented", "creator": "created", "painter": "painted", "composer": "composed",
    "director": "directed", "discoverer": "discovered", "designer": "designed", "builder": "built", "winner": "won",
    "author": "wrote", "writer": "wrote", "producer": "produced", "architect": "designed",
}  # fmt: skip
_NAMED_DEEDS = {
    "application": "apply for", "registration": "register for", "enrollment": "enroll in", "renewal": "renew",
    "cancellation": "cancel", "installation": "install", "return": "return", "activation": "activate",
}  # fmt: skip
_NAMED = "|".join(_NAMED_DEEDS)
_DONE = (
    r"(?:\w{3,}ed|\w{2,}en|made|built|sold|sent|done|bought|paid|held|found|kept|caught|taught|told|cut|set|read|run|put|spent|"
    r"worn|drawn|thrown|shown|grown|known|fed|led|lent|left|reset|hung|lit|dealt|meant|shut|spread|sewn|torn|undone|withdrawn)"
)
_NOBODY = r"(?!(?:i|you|we|he|she|they|can|should|could|must|may|might|shall)\b)"
"""What is done to a person is another thing than what the person does."""
_WHERE = r"(?:in|on|at|for|with|using|from|during)"
_CASE = r"(?:if|when|once|after|before|while|without|as)"
_ASKS = r"(?:how|what|which|can|could|do|does|will|where|is|are|should|must|why|who|when|may|would)"
_MAKER = "|".join(_MAKERS)
_ATTRIBUTE = (
    r"(?:recipe|price|cost|address|phone number|telephone number|zip code|time zone|timezone|opening (?:hours|times?)|business hours|hours|closing time|"
    r"schedule|definition|meaning|requirements?|symptoms?|causes?|benefits|advantages|disadvantages|side effects|ingredients|nutrition facts|capital(?: city)?|"
    r"population|height|age|lyrics|location|birthplace|size|weight|speed|speed limit|fees?|salary|boiling point|melting point|freezing point|"
    r"life expectancy|lifespan|currency|official language|national anthem|syntax|formula|dimensions|diameter|distance|policy|deadline|origin)"
)
_MOST = r"(?:best|cheapest|fastest|easiest|safest|biggest|largest|tallest|highest|longest|smallest|oldest|richest|deepest|hottest|coldest|healthiest|strongest)"
_PLACE = r"(?:city|town|country)"
_EFFECT = r"(?:remove|relieve|prevent|repel|attract|dissolve|reduce|lower|increase|improve|boost|soothe|whiten|cure|treat|deter|stop|clean|neutralize|soften|strengthen)"
"""What a thing does that one does with it: `what removes rust`."""
_OF_ACCOUNT = (
    r"(?:picture|photo|avatar|e?mail|e?mail address|password|address|phone number|number|name|username|details|card|payment method|"
    r"info|information|preferences|bio|signature|email)"
)
_SAME_DEED = (
    r"(?:reply|call|backup|copy|change|search|visit|transfer|purchase|request|test|review|update|walk|nap|break|guess|edit|refund|"
    r"return|report|order|start|repair|upgrade|download|upload|reset|restart|scan|cleanup|comment|vote|bet|bid|claim|deposit|hug|measure|check|"
    r"look|try|rest|sleep|ride|swim|shave|repost|patch|fix|merge|commit|query|export|import|sketch)"
)
_DEED_NOUNS = {
    "response": "respond", "payment": "pay", "decision": "decide", "complaint": "complain", "donation": "donate", "comparison": "compare",
    "calculation": "calculate", "reservation": "reserve", "booking": "book", "application": "apply", "apology": "apologize", "choice": "choose",
    "withdrawal": "withdraw", "subscription": "subscribe", "cancellation": "cancel", "selection": "select", "conversion": "convert",
    "installation": "install", "investment": "invest", "modification": "modify", "improvement": "improve", "translation": "translate",
    "registration": "register", "estimate": "estimate", "analysis": "analyze", "summary": "summarize", "inspection": "inspect", "prediction": "predict",
}  # fmt: skip
_DEED_NOUN = "|".join(_DEED_NOUNS)
_DOING = r"(?:make|write|do|take|have|send|perform|carry out|conduct|run|leave|submit|place|file|give|execute)"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), stands)
    for pattern, stands in (
        (r"\bhow (?:frequently|regularly|many times)\b", "how often"),
        (r"\b(?P<have>have|has) got\b(?! to\b)", r"\g<have>"),
        (r"\b(?:the |a |an )?(?:word|term|phrase|expression|saying|idiom|acronym|abbreviation|initialism) (?=\")", " "),
        (r"\b(?:the |a |an )(?:acronym|abbreviation|initialism) (?=\w)", " "),
        # A search rather than a sentence.
        (rf"^(?P<what>(?:{_ATTRIBUTE}|difference|list|types|reasons?|steps|ways?|tips) (?:of|for|between|to|in) [^?.,!]+?)\W*$", r"what is the \g<what>"),
        (rf"^(?:the )?(?P<what>{_MOST} (?!way to |ways to )[^?.,!]+?)\W*$", r"what is the \g<what>"),
        (rf"^(?P<what>(?!(?:{_ASKS}|i|we|you|my|the|please|how|{_ANYONE})\b)[a-z][\w' -]*?) (?P<attribute>{_ATTRIBUTE})\W*$", ""),
        (r"^(?P<what>[a-z][\w' -]*?) how (?:to|do i|can i|do you) (?P<deed>\w+)\W*$", r"how to \g<deed> \g<what>"),
        # What is said first, and what is said of the thing itself, moves to its plain place.
        (rf"^(?P<rest>(?:which|what|whether|if) [^?,]+?)[,:;] *(?P<ask>how (?:do|can|could|should) {_ANYONE} (?:check|find out|see|tell|know|verify|determine))\W*$", r"\g<ask> \g<rest>"),
        (rf"^(?P<what>[^?,]+?) (?:is|was|are|were) (?P<done>{_DONE}|\w{{2,}}(?:ed|wn|lt|t)) by (?:whom|who|which \w+)(?=\?|$)", r"who \g<done> \g<what>"),
        (r"\b(?P<ask>when|where|why|how|what year|which year|at what time|how long ago) did (?:they|people|someone|somebody|anyone) (?=\w)", r"\g<ask> did "),
        (rf"^(?P<ask>when|where|(?:in )?(?:what|which) year) (?:was|were) (?P<what>{_NOBODY}[^?]+?) (?P<done>(?!born\b|open\b){_DONE})(?! by\b)(?=\?|$| (?:in|on|at|for|from|with)\b)", r"\g<ask> did \g<done> \g<what>"),
        (rf"^how (?P<be>is|are) (?P<what>{_NOBODY}[^?]+?) form(?:ed)(?=\?|$)", r"how does \g<what> form"),
        # A deed by its name: `make a backup of it`.
        (rf"\b{_DOING} (?:an?|the|my|some|your) (?:quick |new |full )?(?P<same>{_SAME_DEED})\b(?! (?:list|page|form|number|code|name|button|key|file|station|center|centre)\b)(?: (?:of|on|in)(?= (?:my|the|a|an|your|this|all)\b))?", r"\g<same>"),
        (r"\bmake (?:some )?changes to\b", "change"),
        (rf"\b{_DOING} (?:an?|the|my|some|your) (?P<named>{_DEED_NOUN})\b(?: (?:of|on)(?= ))?", ""),
        (r"\bgive (?P<whom>(?:my |the |a |your |our |someone )?[\w' ]+?) an? (?P<given>call|ring|bath|massage|hug|lift|ride|refund|raise|tip|review|break|warning)(?=\?|$| (?:in|on|at|when|if|for|from|with)\b)", r"\g<given> \g<whom>"),
        (rf"^(?P<front>(?:{_WHERE}|{_CASE}) [^,?]+), *(?P<rest>{_ASKS} [^?]+?)\?*$", r"\g<rest> \g<front>"),
        (r"\b(?P<the>a|an|the|my|your) (?P<thing>\w+) (?:that|which|who) (?:is|are) (?P<how>\w+)(?=\?|$| (?:in|on|at|from|with|when|after|without)\b)", r"\g<the> \g<how> \g<thing>"),
        (r"^(?:what|which) (?P<thing>\w+(?: \w+)?) (?:is|are) the (?P<most>\w{3,}est|most \w+|least \w+)(?=\?|$| (?:in|on|of|at|for)\b)", r"what is the \g<most> \g<thing>"),
        (r"\bthe (?P<where>world|country|city|state|planet|continent|universe)'s (?P<most>\w{3,}est|most \w+) (?P<thing>\w+)(?=\?|$)", r"the \g<most> \g<thing> in the \g<where>"),
        (r"\b(?P<verb>turn|switch|speed|set|back|hook|fill|look|call|throw|print|slow|heat|warm|clean|send|get|bring|cut|wash|block) (?P<what>(?:my|the|a|an|your|this|that|our) (?:\w+ ){0,2}?\w+) (?P<way>on|off|up|down|out|away|back)(?=\?|$| (?:in|on|at|from|with|when|for|to|if|using|before|after|without)\b)", r"\g<verb> \g<way> \g<what>"),
        (r"\b(?P<thing>\w+)(?: that| which)? (?:i|we|you) have (?:already |just |accidentally )?(?P<how>\w{3,}ed|lost|bought|written|forgotten|stolen|broken|sent|paid)(?=\?|$)", r"\g<how> \g<thing>"),
        (r"\b(?P<thing>\w+) (?:once|after|when) (?:it|they) (?:has been|have been|is|are) (?P<how>\w{3,}ed)(?=\?|$)", r"\g<how> \g<thing>"),
        (r"^(?:is|are) (?P<what>[^?]+?) available(?=\?|$| (?:in|on|at|for|from|with|to|during)\b)", r"is there \g<what>"),
        (r"\b(?:clear|clearing|cleared|empty|emptying|clean out|wipe) (?P<what>(?:the |my |a |your )?(?:[\w']+ ){0,2}?(?:cache|cookies|history))\b", r"delete \g<what>"),
        (rf"\b(?:update|updating|updated) (?P<what>(?:my |your |the |our |an? )?(?:[\w'-]+ ){{0,2}}?{_OF_ACCOUNT})\b", r"change \g<what>"),
        (r"^(?P<which>what|which) (?P<thing>\w+) do (?:they|people|you) use in ", r"\g<which> \g<thing> is used in "),
        (r"\bthe (?P<most>\w{3,}est|most \w+|least \w+) (?P<thing>[\w' ]+?) (?:in the (?:whole |entire )?world|on earth|in the whole world|of all time)(?=\?|$)", r"the \g<most> \g<thing>"),
        (r"\bmake (?P<what>(?:(?:my|the|a|an|your|our) )?[\w' ]+?) (?P<more>(?!fast)\w{3,})er(?=\?|$| (?:in|on|at|for|with|without)\b)", ""),
        # Done by anyone: `how can it be cleaned`.
        (rf"^(?P<ask>how often|when|why|where|how) (?:does|do) (?P<what>{_NOBODY}[^?]+?) (?:need|have) to be (?P<done>{_DONE})(?! by\b)(?=\?|$| )", ""),
        (rf"^(?P<ask>(?:how(?: long| often| soon| much| far)?|where|when|why|can|should|could|must|may)) (?P<may>(?:can|should|could|must|may|might|shall) )?(?P<what>{_NOBODY}[^?]+?) be (?:(?P<how>\w+ly) )?(?P<done>{_DONE}(?: (?:off|on|up|down|out|away|back)(?=\?|$| (?:in|on|at|from|with|when|for)\b))?)(?! by\b)(?=\?|$| )", ""),
        (r"\bget (?P<what>[^?]+?) (?:out of|off of|off) (?P<where>(?:the|a|an|my|your) )", r"remove \g<what> from \g<where>"),
        (r"\bget out (?P<what>(?:the|a|an|my|your) [^?]*?(?:stain|splinter|wrinkle|dent|smell|scratch|odor)e?s?)\b", r"remove \g<what>"),
        (r"\bmake an? (?P<what>\w+(?: \w+)?) (?:reservation|booking)", r"book a \g<what>"),
        (r"\b(?:make|schedule|set up|arrange|get) an appointment", "book an appointment"),
        (r"\bmake (?P<what>(?:my|the|a|an|your) [^?]+?) (?:run |go |work )?(?:faster|quicker)\b", r"speed up \g<what>"),
        (r"^(?P<ask>what (?:do|does|did|can|could|will|would) [^?]+? )do(?=\?|$| (?:in|on|at|with|for|during)\b)", r"\g<ask>perform"),
        # How: a way that is asked for, a way there may be, and what one does to get there.
        (rf"\b(?:what|which) (?:is|are|was|were|would be|might be|could be) (?:(?:the|a|an|some|one|your|any|all) )?(?:of the )?(?:{_PRAISE} )*{_METHOD} (?:that )?(?:{_ANYONE} (?:can|could|should|would|have to) (?:use|follow|take) )?{_TO_DO}", "how to "),
        (rf"\b(?:what|which) (?:{_PRAISE} )*{_STEPS} (?:can|should|do|could|must|would|will|are|is) (?:{_ANYONE} )?(?:need to |have to )?(?:be )?(?:take|taken|follow|followed|use|used|do|needed|required|involved|necessary|recommended|there) (?:in order )?{_TO_DO}", "how to "),
        (rf"\b(?:what|which) (?:{_PRAISE} )*{_STEPS} (?:do|should|must) {_ANYONE} (?:need|require) {_TO_DO}", "how to "),
        (rf"\b(?:is|are) there (?:(?:a|an|any|some) )?(?:{_PRAISE} )*{_METHOD} (?:that )?{_TO_DO}", "how to "),
        (rf"\bwhat (?:can|should|could|must|do|would|might|shall) {_ANYONE} (?:have to |need to |got to )?do (?:in order )?(?:to|so as to) {_DEED}", "how to "),
        (rf"\bwhat (?:does it take|is involved|needs to be done|has to be done|must be done|should be done|can be done) (?:in order )?{_TO_DO}", "how to "),
        (rf"\bwhat is the (?:exact |correct |right )?(?:formula|equation|recipe) {_TO_DO}", "how to "),
        (rf"\bhow (?:do|can|could|should|would|might|must|does) {_ANYONE} (?:best |actually |properly |correctly |safely )?(?:go about|manage to|proceed to) ", "how to "),
        (rf"\bhow (?:is it possible|would it be possible|does it work) to {_DEED}", "how to "),
        (r"^(?:i|we) (?:want|need|would like|wish|am trying|are trying|am looking|would love|(?:was|were|am) hoping (?:you|someone) (?:can|could) help (?:me|us)(?: to)?|(?:was|were|am) hoping)(?: to)? (.+?)[,.;:!]* (?:so |but )?(?:how (?:do|can|should|would|could) (?:i|we) (?:do (?:it|that|this|so)|go about (?:it|that|this)|proceed)|what (?:do|should|can|must) (?:i|we) (?:need to |have to )?do|what is the (?:best |easiest |right )?way(?: to do (?:it|that|this))?)\??$", r"how to \1"),
        (rf"\bhow (?P<may>can|do|should|could|would) {_ANYONE} best (?=\w)", r"how \g<may> i "),
        # Where and when it is done best.
        (rf"\b(?:what|which|where) is (?:the|a) (?:best|good|right|ideal) (?:place|spot|area|location|site) (?:in \w+ )?to {_DEED}", "where can i "),
        (rf"\b(?:what|which) are (?:some |the |any )?(?:best|good|right|ideal|great) (?:places|spots|areas|locations|sites) (?:in \w+ )?to {_DEED}", "where can i "),
        (rf"\b(?:what|when) is (?:the|a) (?:best|good|right|ideal) (?:time|moment|season)(?: of (?:the )?year)? to {_DEED}", "when should i "),
        (r"\b(?:what|when) is (?:the|a) (?:best|good|right|ideal) (?:time|moment|season)(?: of (?:the )?year)? for (?=\w+ing\b)", "when should i "),
        (rf"^how (?:do|can|could|would|should|to) (?:{_ANYONE} )?(?:find|look up|locate) (?!out\b)", "where is "),
        (r"\bwhat is the (?:origin|source) of (?P<what>[^?]+)", r"where does \g<what> come from"),
        (r"\bwhat is the (?:purpose|use|function|point) of (?P<what>(?!\w+ing\b)[^?]+)", r"what is \g<what> used for"),
        (r"^what (?:is|are) (?P<what>(?:an? |the )?[^?]+?) (?<!short )(?:good |used |meant |intended )?for(?=\?|$)", r"what is \g<what> used for"),
        (r"\b(?:what|which) (?:foods?|kinds? of food|sorts? of food|types? of food|things?|stuff) (?=(?:do|does|can|should|did|could|must) )", "what "),
        (r"\b(?:in |at |during )?(?:what|which) (?:month|months|season|time of (?:the )?year|part of the year) (?=(?:do|does|is|are|can|should|did|will|was) )", "when "),
        (r"^(?:(?:can|could|would|will) (?:you|anyone|someone) (?:please )?)?(?:recommend|suggest)(?: (?:me|us|to me))? (?:some |any |an? |a few )?(?:really |very )?(?:good |great |nice )?(?P<what>(?!how\b|what\b|that\b|i\b)[^?]+)", r"what are good \g<what>"),
        (r"^(?:are there any|do you have any|do you know any|do you know some|any) (?:really |very )?(?:good|great|nice) (?P<what>[^?]+?)(?: (?:to|you (?:can|could|would)) recommend)?(?=\?|$)", r"what are good \g<what>"),
        (r"^what are (?:some of the|some|a few|any) (?P<what>[^?]+?)(?: (?:that )?(?:you (?:can|could|would) recommend|worth (?:reading|watching|visiting)))?(?=\?|$)", r"what are \g<what>"),
        (r"\b(?P<which>what|which) time zone", r"\g<which> timezone"),
        (r"^(?:what|how much) (?:do|does) (?P<who>[^?]+?) (?P<deed>earn|cost|weigh)(?=\?|$| )", r"how much does \g<who> \g<deed>"),
        (r"^(?:what|how much) (?:do|does) (?P<who>[^?]+?) charge(?=\?|$| (?:for|per|an|a)\b)", r"how much does \g<who> cost"),
        (rf"\bis there (?:a|any|some) way (?:that )?(?P<who>{_ANYONE}) (?:can|could|may) ", r"how can \g<who> "),
        (rf"\bis there (?:something|anything) (?P<who>{_ANYONE}) can do to ", "how to "),
        (r"^how does (?P<deed>\w+ing [^?]+?) work(?=\?|$)", r"how to \g<deed>"),
        (rf"^what (?P<deed>{_EFFECT})s (?P<what>(?!to\b|like\b)[^?]+)", r"how to \g<deed> \g<what>"),
        (r"^what gets rid of ", "how to delete "),
        (rf"^(?:in )?(?:what|which) {_PLACE} (?P<is>is|are|was|were) (?P<what>[^?]+?)(?: (?:located|situated|found))?(?: in)?(?=\?|$)", r"where \g<is> \g<what>"),
        # What it is, said in two ways.
        (r"^(?:how (?:does|do|is|are)|what makes) (?P<one>[^?]+?) (?:differ|different) from (?P<other>[^?]+)", r"what is the difference between \g<one> and \g<other>"),
        (r"\bwhat is the (?P<deed>boil|freez|melt)ing (?:point|temperature) of (?P<what>[^?]+)", r"at what temperature does \g<what> \g<deed>ing"),
        (r"\bwhat are the (?:main )?ingredients (?:of|in|for) (?P<what>[^?]+)", r"what is \g<what> made of"),
        (r"\bwhat is (?:a |the )?(?:good |best )?(?:substitute|replacement|alternative) (?:for|to) ", "what can i use instead of "),
        (r"\bwhat can (?:i|you|we|one) (?:substitute for|use in place of|use as a (?:substitute|replacement|alternative) for) ", "what can i use instead of "),
        (r"\bwhat (?:languages?|language) (?:do|does) (?:they|people|one|you) speak in ", "what language is spoken in "),
        (r"\bwhat is the (?P<tongue>\w+) (?:word|term|translation|expression) (?:for|of) (?P<what>[^?]+)", r"how to say \g<what> in \g<tongue>"),
        (r"\bwhat is the (?P<what>\w+(?: \w+)?) (?:period|duration|length)(?= of| for|\?|$)", r"how long is the \g<what>"),
        (r"\bwhat (?:happens|would happen|will happen|could happen|is going to happen|might happen) (?:if|when|once|in case) ", "what happen if "),
        (rf"\bwhat (?:do|should|can|must|shall|would) {_ANYONE} do (?:if|when|in case) ", "what should i do if "),
        (rf"\bwhat is the (?P<noun>{_NAMED}) (?:process|procedure)(?= (?:for|of|to)\b)(?: (?:for|of))?", ""),
        (rf"^is (?P<deed>\w+ing) (?:{_NEEDED}|expected)(?P<rest> [^?]+|)(?=\?|$)", r"must \g<deed>\g<rest>"),
        # Can: what is possible, and what is allowed.
        (rf"^(?:is it|would it be|will it be) {_OK} to ", "can "),
        (rf"^(?:is it|would it be|will it be) {_OK} (?:if (?P<who>{_ANYONE})|for (?P<whom>\w+(?: \w+)?) to) ", ""),
        (rf"^(?:am|are|is) (?P<who>{_ANYONE}) (?:allowed|permitted|able) to ", r"can \g<who> "),
        (rf"^(?:will|would) (?P<who>{_ANYONE}) be (?:allowed|permitted|able) to ", r"can \g<who> "),
        (rf"^is (?P<deed>\w+ing) (?P<rest>.+?) (?:{_OK}|an option)\?*$", r"can \g<deed> \g<rest>"),
        (rf"^is (?P<deed>\w+ing) {_OK}(?P<rest> .+)$", r"can \g<deed>\g<rest>"),
        (r"^(?:is|are) (?P<who>[^?]+?) able to ", r"can \g<who> "),
        (r"^(?:is|are) (?P<what>[^?]+?) edible(?=\?|$)", r"can eat \g<what>"),
        (r"^(?:is|are) (?P<what>[^?]+?) inedible(?=\?|$)", r"can not eat \g<what>"),
        (r"^(?:is|are) (?P<what>[^?]+?) drinkable(?=\?|$)", r"can drink \g<what>"),
        (r"^(?:is it|would it be|will it be) (?P<how>safe|legal) to ", r"can \g<how> "),
        (r"^(?:is it|would it be|will it be) (?P<how>safe|legal) for (?P<who>\w+(?: \w+)?) to ", r"can \g<how> \g<who> "),
        (rf"^(?:am|are|is) (?P<who>{_ANYONE}) legally (?:allowed|permitted|able) to ", r"can legal \g<who> "),
        (r"^can (?P<rest>.+?) (?P<how>safe|legal)ly(?=\?|$| )", r"can \g<how> \g<rest>"),
        # Should, and must.
        (rf"^(?:is it|would it be) {_WISE} to ", "should "),
        (rf"^(?:is it|would it be) {_WISE} for (?P<who>\w+(?: \w+)?) to ", r"should \g<who> "),
        (rf"^(?:is it|would it be|will it be) {_NEEDED} to ", "must "),
        (rf"^(?:is it|would it be|will it be) {_NEEDED} for (?P<who>\w+(?: \w+)?) to ", r"must \g<who> "),
        (rf"^(?:am|are|is) (?P<who>{_ANYONE}) (?:required|obliged|obligated) to ", r"must \g<who> "),
        (rf"^(?:do|does|will|would) (?P<who>{_ANYONE}) (?:have|need) to ", r"must \g<who> "),
        (rf"^(?:is|are) (?P<what>.+?) {_NEEDED} for (?P<who>.+?) to (?P<deed>\w+)", r"do \g<who> need \g<what> to \g<deed>"),
        (rf"^(?:is|are) (?P<what>.+?) {_NEEDED} (?P<end>(?:to|for|in|at|on|when) .+)$", r"need \g<what> \g<end>"),
        # What follows from a case.
        (r"\bwhat (?:are|is|will be|would be|might be) the (?:possible |likely )?(?:consequence|result|outcome)s? (?:of|if|for|when) ", "what happen if i "),
        # How old one must be.
        (rf"\bhow old (?:do|does|must|should) {_ANYONE} (?:have to |need to )?be to ", "how old must i be to "),
        (r"\bwhat is the (?:minimum |legal |minimum legal |required )age (?:to|for|of) ", "how old must i be to "),
        (r"\bwhat is the (?:minimum |legal |minimum legal )(\w+ing) age\b", r"how old must i be to \1"),
        # Measures by their names.
        (rf"\b(?:what|which) (?:is|are|was|were) the {_USUAL}(?P<measure>{_MEASURE}) of (?P<whose>[^?,]+)", ""),
        (rf"\bwhat is (?P<whose>[\w ]+?)(?:'s|s') {_USUAL}(?P<measure>{_MEASURE})(?=\?|$)", ""),
        (r"\bwhat is the distance (?=from|between|to)", "how far is it "),
        # Who made it.
        (rf"\bwho (?:is|was|are|were) the (?:original |first )?(?P<maker>{_MAKER}) of (?P<whose>[^?,]+)", ""),
        (rf"\bwho (?:is|was|are|were) (?P<whose>[\w ]+?)(?:'s|s') (?P<maker>{_MAKER})(?=\?|$)", ""),
        (rf"^by whom (?:is|was|were|are) (?P<what>.+?) (?P<deed>{_DONE}|\w{{2,}}(?:ed|wn|lt|t))(?=\?|$)", r"who \g<deed> \g<what>"),
        (rf"^who (?:is|was|were|are) (?P<what>.+?) (?P<deed>{_DONE}|\w{{2,}}(?:ed|wn|lt)) by(?=\?|$)", r"who \g<deed> \g<what>"),
    )
)  # fmt: skip


def plain_question(text: str) -> str:
    """Returns a question in its plainest frame.

    Args:
        text: English in lower case, its short forms (`what's`) written out.
    """
    for pattern, stands in _RULES:
        text = pattern.sub(stands or _said_plainly, text)
    return text


def _said_plainly(found: re.Match[str]) -> str:
    groups = found.groupdict()
    if groups.get("measure"):
        return _MEASURES[groups["measure"]].format(groups["whose"])
    if groups.get("attribute"):
        # `Book hotels address` bids, `guacamole recipe` names.
        first = groups["what"].split()[0]
        return found.group() if is_verb(first) else f"what is the {groups['attribute']} of {groups['what']}"
    if groups.get("more"):
        return f"{groups['more']}en {groups['what']}" if is_verb(f"{groups['more']}en") else found.group()
    if groups.get("named"):
        return _DEED_NOUNS[groups["named"]]
    if groups.get("noun"):
        return f"how to {_NAMED_DEEDS[groups['noun']]}"
    if groups.get("maker"):
        return f"who {_MAKERS[groups['maker']]} {groups['whose']}"
    if groups.get("who") or groups.get("whom"):
        return f"can {groups['who'] or groups['whom']} "
    may = "" if groups["ask"] in _MAY else groups.get("may") or "should "
    return f"{groups['ask']} {may}{groups['done']} {groups['what']}"


_MAY = frozenset({"can", "should", "could", "must", "may"})
