"""Sentences, and those that bind, decide or announce.

Rules for English, German, French, Spanish, Chinese and Japanese: words that bind (`must`,
`nur`, `il faut`, `siempre`, `不要`, `ないで`), that decide (`instead of`, `deshalb`) and that
announce (`next`, `接下来`). They know no grammar: a sentence with
such a word is taken whole and verbatim; a question binds nobody. Of another language nothing is
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
    r"|usw|evtl|ggf|p\.\s?ej|ej|[A-Zzdu])\.$"
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
    " aus bei auch noch wie wird werden sind du keine kein aber nur darfst darf",
    "fr": "le la les et est une pas pour dans des du que qui sur avec je nous il ce sont aux"
    " au ne en dois faut",
    "es": "el la los las y es una no para en del que con por se lo como esta este son al pero"
    " hay debe debes siempre nunca más",
}
_BY_WORD: dict[str, set[str]] = {}
for _language, _words in _COMMON.items():
    for _word in _words.split():
        _BY_WORD.setdefault(_word, set()).add(_language)

# Words that bind whoever reads them. What mostly reports ("it doesn't work", "das geht nicht",
# "ça ne marche pas") counts only in the form of a wish.
_BINDING = {
    "en": r"(?<![\w-])(?:must(?:n['’]t)?|never|always|(?<!\bI )(?:do not|don['’]?t)|only"
    r"|prefer(?:s|red)?|preferably|avoid|should(?:n['’]t)?|shall|make sure|ensure|without"
    r"|instead of|rather than|no longer|at (?:least|most)|(?:no|not) more than|have to|has to"
    r"|needs? to|required?|requires|forbidden|allowed|mandatory|stick (?:to|with)"
    r"|leave .{1,60}(?:alone|untouched|as)"
    r"|keep(?! (?:going|on|working|trying|getting))|under no|by no means|(?:is|are) not to"
    r"|no (?:new|other|more)|(?:answer|reply|respond|write|speak)(?: \w+){0,2} in [A-Z]\w+)\b"
    r"|^(?:please )?(?:use|write|call|name|put|return|make)\b.{1,80}\bnot\b",
    "de": r"\b(?:muss|müssen|musst|darf|dürfen|darfst|niemals|nie|immer|stets|soll(?:en|te|ten|st)?"
    r"|nur|lieber|bevorzug\w*|vermeid\w*|ohne|kein(?:e|en|er|es|em)?|bitte\b.{0,200}\bnicht"
    r"|mindestens|höchstens|achte|stell(?:e|t)? sicher|statt|anstatt|anstelle|verboten|erlaubt"
    r"|unbedingt|auf keinen fall|lass|lasst|auf (?:deutsch|englisch))\b"
    r"|\bnicht (?:\w+ ){0,3}\w+en\W*$"
    r"|^(?:änder|fass|lösch|mach|benutz|verwend|nutz|schreib|rühr|füg|ersetz|entfern|verschieb|nimm"
    r"|brich|installier|starte|ruf|frag|erstell|leg|vergiss)\w{0,3}\b.*\bnicht\b",
    "fr": r"\b(?:doit|doivent|dois|devez|devons|faut|toujours|jamais|seulement|uniquement"
    r"|préf[éè]r\w*|évit\w+|sans|obligatoire\w*|interdit\w*|assure[zr]?-(?:toi|vous)"
    r"|au (?:plus|moins)|plutôt|au lieu|en (?:français|anglais))\b"
    r"|(?:^|[,;:] ?)n(?:e |['’])\w+(?: \w+)? (?:pas|plus|rien)\b",
    "es": r"\b(?:debe[ns]?|debes|debemos|deber\w+|hay que|nunca|jamás|siempre|sólo|solo|solamente"
    r"|únicamente|prefier\w+|preferi\w+|evita\w*|sin|al menos|como (?:máximo|mínimo)|asegúra\w+"
    r"|prohibid\w+|obligatori\w+|en (?:vez|lugar) de|tienes? que|en (?:español|inglés))\b"
    r"|(?:^|[,;:] ?|\by |\bpero )no (?:l[aeo]s? |me )?\w+[ae]s\b",
    "zh": r"必须|必需|(?<!要)不要(?!紧)|不得|不可|不许|不准|不应|请勿|切勿|禁止|(?<!不)一定|务必"
    r"|总是|始终|永远|应该|应当|优先|尽量|避免|最好(?!的)|至少|最多|不超过|而不是|别再"
    r"|不能(?!运行|用了|工作|正常|通过|编译|打开|启动|访问|连接|显示|找到|理解)"
    r"|(?<![区特类级分性差识个])别(?![的人名处墅称])"
    r"|[只仅](?:能|用|要|改|允许|需|在|有|读|支持|可|准|修改|使用)|用(?:中文|英文|英语|汉语)",
    "ja": r"必ず|ないで(?!す|し[ょた])|てはいけ|てはなら|ではいけ|ちゃだめ|禁止|常に|いつも|のみ"
    r"|避け|べき|だけ(?!ど|で(?:なく|は|す))|ないこと|[方ほ](?:う)?が(?:いい|良い)|優先|絶対|以内"
    r"|なければ(?:なら|いけ)|厳守|ではなく|(?:日本語|英語)で",
}
# Words with which an assistant says what it chose or found to be so, and why.
_DECIDING = {
    "en": r"\b(?:decided|decision|chose|chosen|(?:I|we)(?:['’]ll| will)? (?:use|go with|switch)"
    r"|going with|instead of|rather than|because|root cause|turns out|the (?:problem|bug|cause"
    r"|reason|fix|culprit|issue) (?:is|was)|that is why|so that|trade-?off|agreed)\b",
    "de": r"\b(?:entschieden|entscheid\w+|deshalb|daher|weil|stattdessen|statt|ursache|grund"
    r"|gewählt|damit)\b",
    "fr": r"\b(?:décid\w+|choisi\w*|parce qu\w+|car|donc|plutôt que|au lieu|la cause|la raison)\b",
    "es": r"\b(?:decid\w+|eleg\w+|porque|por eso|en (?:lugar|vez) de|la causa|la razón)\b",
    "zh": r"决定|因为|所以|因此|改用|采用|原因|选择|而不是",
    "ja": r"決め|決定|原因|ので|そのため|ことにし|代わりに|ではなく",
}
# And what it means to do, or what is left to do.
_MEANING = {
    "en": r"\b(?:next|then|remaining|remains|todo|to do|still (?:need|have|to|open|missing)|left to"
    r"|(?:I|we)(?:['’]ll| will)|let me|shall I|should I|want me to|would you like|not yet)\b",
    "de": r"\b(?:als nächstes|nächste\w*|dann|noch|ich werde|soll ich|bleibt|offen|fehlt)\b",
    "fr": r"\b(?:ensuite|prochain\w*|reste|je vais|puis|veux-tu|voulez-vous|dois-je|encore)\b",
    "es": r"\b(?:siguiente|próxim\w+|después|luego|falta\w*|voy a|quieres que|queda\w*|ahora)\b",
    "zh": r"接下来|下一步|然后|还需要|尚未|剩下|我会|我将|要不要|待办",
    "ja": r"次に|次は|これから|残り|まだ|しましょうか|予定|未",
}
Rules = dict[str, re.Pattern[str]]


def _compiled(words: dict[str, str]) -> Rules:
    return {language: re.compile(rule, re.IGNORECASE) for language, rule in words.items()}


_RULES, _DECISIONS, _INTENTIONS = map(_compiled, (_BINDING, _DECIDING, _MEANING))
# What somebody reports and does not ask for, though it has a word that binds: "it never works".
_REPORTING = {
    "en": r"\b(?:I|it|he|she|they|this|that|there|which)"
    r"(?:['’](?:ve|s|d)| have| has| had| was| were)? (?:never|always|only)\b"
    r"(?! (?:want|need|use|like|prefer|expect|be)\b)"
    r"|\b(?:is|are|was|were|has|have|had|see|got|['’]s) no (?:new|other|more|longer)\b"
    r"|\b(?:do not|don['’]?t) (?:worry|mind|bother)\b|\bneeds? to (?:know|understand|find out)\b",
    "de": r"\b(?:ist|sind|war|waren|habe?|hat|haben|hatten?|gibt|gab|wird|wurde|geht|ging|kommt|kam"
    r"|bekomme|sehe|funktioniert)\b.{0,60}\b(?:nie|immer|nur|kein\w*)\b|\bimmer (?:noch|wieder)\b",
    "fr": r"\btoujours pas\b|\bn['’](?:ai|as|a|avons|avez|ont|est|était) jamais\b"
    r"|\bne (?:marche|fonctionne|passe) (?:jamais|plus|pas)\b",
    "es": r"\b(?:nunca|siempre) (?:funciona\w*|falla\w*|h[ae]\w*|vi|da)\b",
}
# Where one of these stands beside it, it is asked for all the same.
_ASKING = {
    "en": r"\b(?:must|never again|please|make sure|ensure|should|have to|has to|avoid)\b",
    "de": r"\b(?:muss|müssen|darf|dürfen|soll\w*|bitte|niemals|auf keinen fall|unbedingt)\b",
    "fr": r"\b(?:faut|doit|doivent|devez|interdit\w*)\b",
    "es": r"\b(?:debe\w*|hay que|tienes? que|prohibid\w+)\b",
}
_REPORTS, _WISHES = map(_compiled, (_REPORTING, _ASKING))
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
    reports ("it never works") and what is longer than `SENTENCE` (pasted, not said) are left out.

    Args:
        language: As `speaks` gives it; None: it is told from the text.
    """
    for sentence in _matching(text, _RULES, language):
        asks = len(sentence) < SENTENCE and not is_question(sentence)
        if asks and not _is_report(sentence):
            yield sentence


def _is_report(sentence: str) -> bool:
    """Whether a sentence tells how things are, in any of the languages that have rules for it."""
    return any(
        rule.search(sentence) and not _WISHES[language].search(sentence)
        for language, rule in _REPORTS.items()
    )


def is_question(sentence: str) -> bool:
    """Whether it ends in a question mark, whatever closes after it."""
    return _QUESTION.search(sentence[-8:]) is not None


def decisions(text: str) -> Iterator[str]:
    """The sentences of an assistant that say what was chosen or found, and why."""
    return _matching(text, _DECISIONS, None)


def intentions(text: str) -> Iterator[str]:
    """The sentences of an assistant that say what comes next, or ask whether it shall."""
    return _matching(text, _INTENTIONS, None)


def _matching(text: str, rules: Rules, language: str | None) -> Iterator[str]:
    spoken = language or speaks(text)
    tried = [rules[name] for name in dict.fromkeys((spoken, "en")) if name]
    return (
        sentence for sentence in sentences(text) if any(rule.search(sentence) for rule in tried)
    )
