"""Sentences, and those in which somebody says how a thing must be done.

Rules for English, German, French, Spanish, Chinese and Japanese: words that bind (`must`,
`never`, `nur`, `il faut`, `siempre`, `不要`, `ないで`). They know no grammar: a sentence with
such a word is taken whole and verbatim, a question never is. Of another language nothing is
found, and `speaks` says that no rule fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SENTENCE = 400
"""Characters of a sentence; a longer one is cut there."""

_BULLET = re.compile(r"^\s*(?:(?:[-*+•–]|\d{1,3}[.)]|\[[ xX]\]|#{1,6}|>)\s+)+")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
# A point ends a sentence where a blank follows, but not after what is mostly short for a word.
_END = re.compile(r"(?<=[.!?…])[\"'”’»)\]*_`]{0,3}\s+|(?<=[。！？])[」』”’）]{0,2}\s*")
_SHORT = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|resp|Mr|Mrs|Dr|St|no|Nr|z\.\s?B|d\.\s?h|u\.\s?a|bzw|ca"
    r"|usw|evtl|ggf|p\.\s?ej|ej|[A-Za-z])\.$"
)
_WRAPPED = 60
"""A line of prose that is at least so long and ends in no mark may go on in the next one."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text in order: bullets without their marks, code in fences left out.

    Lines that are wrapped are put together again. White space is one blank each.
    """
    for line in _lines(text):
        start = 0
        for end in _END.finditer(line):
            if _SHORT.search(line[max(end.start() - 12, start) : end.start()].rstrip("\"')")):
                continue
            yield from _cut(line[start : end.end()])
            start = end.end()
        yield from _cut(line[start:])


def _cut(sentence: str) -> Iterator[str]:
    if flat := " ".join(sentence[: 4 * SENTENCE].split()):
        yield flat if len(flat) <= SENTENCE else flat[: SENTENCE - 1] + "…"


def _lines(text: str) -> Iterator[str]:
    fence = ""
    held: list[str] = []
    wraps = False
    for raw in text.split("\n"):
        marks = _FENCE.match(raw)
        if marks or fence:
            if marks:
                fence = _next_fence(fence, marks[1])
            if held:
                yield " ".join(held)
            held, wraps = [], False
            continue
        bullet = _BULLET.match(raw)
        line = (raw[bullet.end() :] if bullet else raw).strip()
        if held and not (wraps and line and not bullet and not line[0].isupper()):
            yield " ".join(held)
            held = []
        if line:
            held.append(line)
        wraps = len(line) >= _WRAPPED and line[-1] not in ".!?…:;。！？："
    if held:
        yield " ".join(held)


def _next_fence(fence: str, mark: str) -> str:
    if not fence:
        return mark
    closes = mark[0] == fence[0] and len(mark) >= len(fence)
    return "" if closes else fence


# --- languages ------------------------------------------------------------------------------

_KANA = re.compile(r"[\u3041-\u30ff]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_WORDS = re.compile(r"[A-Za-z\u00c0-\u024f']+")
_LOOKED_AT = 4_000
"""Characters by which the language of a text is told."""

# Words without which hardly a sentence of that language is written.
_COMMON = {
    "en": "the and is are to of in it this that for with not be you i we my should please can a",
    "de": "der die das und ist nicht ein eine zu mit auf für von den dem ich wir bitte es sich im"
    " aus bei auch noch wie wird werden sind",
    "fr": "le la les et est une pas pour dans des du que qui sur avec je nous il ce sont aux"
    " au ne en dois faut",
    "es": "el la los las y es una no para en del que con por se lo como esta este son al pero"
    " hay debe",
}
_BY_WORD: dict[str, set[str]] = {}
for _language, _words in _COMMON.items():
    for _word in _words.split():
        _BY_WORD.setdefault(_word, set()).add(_language)

# Words that bind whoever reads them. What mostly reports ("it doesn't work", "das geht nicht",
# "ça ne marche pas") counts only in the form of a wish.
_BINDING = {
    "en": r"\b(?:must(?:n['’]t)?|never|always|(?<!\bI )(?:do not|don['’]?t)|only|prefer(?:s|red)?"
    r"|preferably|avoid|should(?:n['’]t)?|shall|make sure|ensure|without|instead of|rather than"
    r"|no longer|at (?:least|most)|(?:no|not) more than|have to|has to|needs? to|required?|requires"
    r"|forbidden|allowed|mandatory|stick (?:to|with)|leave .{1,60}(?:alone|untouched|as)"
    r"|keep(?! (?:going|on|working|trying))|under no|by no means|(?:is|are) not to"
    r"|no (?:new|other|more))\b",
    "de": r"\b(?:muss|müssen|musst|darf|dürfen|darfst|niemals|nie|immer|stets|soll(?:en|te|ten|st)?"
    r"|nur|lieber|bevorzug\w*|vermeid\w*|ohne|kein(?:e|en|er|es|em)?|bitte\b.{0,200}\bnicht"
    r"|mindestens|höchstens|achte|stell(?:e|t)? sicher|statt|anstatt|anstelle|verboten|erlaubt"
    r"|unbedingt|auf keinen fall|lass|lasst)\b|\bnicht (?:\w+ ){0,3}\w+en\W*$",
    "fr": r"\b(?:doit|doivent|dois|devez|devons|faut|toujours|jamais|seulement|uniquement"
    r"|préf[éè]r\w*|évit\w+|sans|obligatoire\w*|interdit\w*|assure[zr]?-(?:toi|vous)"
    r"|au (?:plus|moins)|plutôt|au lieu)\b"
    r"|(?:^|[,;:] ?)n(?:e |['’])\w+(?: \w+)? (?:pas|plus|rien)\b",
    "es": r"\b(?:debe[ns]?|debes|debemos|deber\w+|hay que|nunca|jamás|siempre|sólo|solo|solamente"
    r"|únicamente|prefier\w+|preferi\w+|evita\w*|sin|al menos|como (?:máximo|mínimo)|asegúra\w+"
    r"|prohibid\w+|obligatori\w+|en (?:vez|lugar) de|tienes? que)\b"
    r"|(?:^|[,;:] ?|\by |\bpero )no (?:l[aeo]s? |me )?\w+[ae]s\b",
    "zh": r"必须|必需|不要|不能|不得|不可|不许|不准|不应|请勿|切勿|禁止|一定|务必|总是|始终|永远"
    r"|应该|应当|优先|尽量|避免|最好|至少|最多|不超过|而不是|别再"
    r"|(?<![区特类级分性差识个])别(?![的人名处墅称])"
    r"|[只仅](?:能|用|要|改|允许|需|在|有|读|支持|可|准|修改|使用)",
    "ja": r"必ず|ないで|てはいけ|てはなら|ではいけ|ちゃだめ|禁止|常に|いつも|のみ|避け|べき"
    r"|だけ(?!で(?:なく|は))|ないこと|[方ほ](?:う)?が(?:いい|良い)|優先|絶対|以内"
    r"|なければ(?:なら|いけ)|厳守|ではなく",
}
_RULES = {
    language: re.compile(rule, re.IGNORECASE) if language not in ("zh", "ja") else re.compile(rule)
    for language, rule in _BINDING.items()
}
_QUESTION = re.compile(r"[?？]\W*$")


def speaks(text: str) -> str | None:
    """The language of a text: `en`, `de`, `fr`, `es`, `zh`, `ja`; None: none that has rules.

    By its script, else by the words that hardly a sentence goes without; two of them at least,
    one in a text of less than six words.
    """
    head = text[:_LOOKED_AT]
    kana, han = len(_KANA.findall(head)), len(_HAN.findall(head))
    words = [word.lower() for word in _WORDS.findall(head)]
    if kana > 1 and 10 * (kana + han) > len(words):
        return "ja"
    if han > 1 and 5 * han > len(words):
        return "zh"
    votes = dict.fromkeys(_COMMON, 0)
    for word in words:
        for language in _BY_WORD.get(word, ()):
            votes[language] += 1
    best = max(votes, key=lambda language: votes[language])
    return best if votes[best] >= (2 if len(words) >= 6 else 1) else None


def constraints(text: str, language: str | None = None) -> Iterator[str]:
    """The sentences of a user that say what must, may not or should be, whole and verbatim.

    English rules are tried beside those of the text's own language: people mix. Questions
    and what is longer than `SENTENCE` (pasted, not said) are left out.

    Args:
        language: As `speaks` gives it; None: it is told from the text.
    """
    spoken = language or speaks(text)
    rules = [_RULES[name] for name in dict.fromkeys((spoken, "en")) if name]
    for sentence in sentences(text):
        if _QUESTION.search(sentence) or len(sentence) >= SENTENCE:
            continue
        if any(rule.search(sentence) for rule in rules):
            yield sentence
