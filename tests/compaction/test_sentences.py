"""Sentences, and which of them bind: in six languages, and told from mere reports."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.compaction.sentences import SENTENCE, constraints, sentences, speaks

BINDING = """\
Never touch the vendor/ folder; it is generated.
You must not change the signature of total().
ok, always use uv
Only edit cart.py.
Use tabs, not spaces.
Please don't commit anything.
Keep the signature.
Leave main.py alone.
No new dependencies!
We only support Python 3.11.
It must never write to disk.
Answer in German.
Bitte nur die Tests ändern.
Ändere die API nicht.
Nicht die Datenbank anfassen.
Du darfst keine neuen Pakete installieren.
Il faut garder l'API telle qu'elle est.
N'utilise pas de bibliothèque externe.
Ne change jamais le fichier de configuration.
No cambies la API.
Hay que mantener la API.
Siempre debes usar la versión 3.
用整数分来表示金额，不要用 Decimal。
只改 cart.py。
必须保留接口。
别动数据库的表。
接口不能改。
テストは消さないでください。
必ず型を付けること。
このファイルは変更してはいけません。""".splitlines()

REPORTS = """\
I never saw this before.
It never works.
I've always wondered.
I only get an error.
There is no other way.
There are no new files in it.
Don't worry about it.
I don't know.
Why don't you use X?
Should we always use tabs?
Please add tests.
Thanks, looks good.
Das ist nie passiert.
Ich habe keine Ahnung.
Es gibt immer noch einen Fehler.
Es funktioniert nicht.
Ça ne marche pas.
Je n'ai jamais vu cette erreur.
Ça ne marche toujours pas.
No funciona.
Nunca funciona.
程序不能运行。
别的办法没有了。
特别好。
我不要紧。
你要不要看一下。
動かないです。
分からないので教えて。
それだけです。""".splitlines()


@pytest.mark.parametrize("sentence", BINDING)
def test_what_binds_is_found_whole_and_word_for_word(sentence: str) -> None:
    assert list(constraints(sentence)) == [sentence]


@pytest.mark.parametrize("sentence", REPORTS)
def test_what_only_reports_or_asks_binds_nobody(sentence: str) -> None:
    assert list(constraints(sentence)) == []


def test_a_constraint_is_taken_out_of_what_is_said_around_it() -> None:
    text = "The totals are wrong, e.g. in cart.py. Find out why. But never change total()! Thanks."

    assert list(constraints(text)) == ["But never change total()!"]


def test_code_between_fences_binds_nobody() -> None:
    text = "Here it is:\n```\n# never call this, you must not\n```\nFix it, keep the signature."

    assert list(constraints(text)) == ["Fix it, keep the signature."]


def test_english_rules_are_tried_in_any_language() -> None:
    text = "Das ist der Plan für die Tests und noch mehr. Never push to main."

    assert list(constraints(text)) == ["Never push to main."]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Find out why the totals are wrong.", "en"),
        ("Finde heraus, warum die Summen nicht stimmen.", "de"),
        ("Trouve pourquoi les totaux ne sont pas justes.", "fr"),
        ("Averigua por qué los totales no son correctos en la tabla.", "es"),
        ("找出 cart.py 的总数为什么不对。", "zh"),
        ("cart.py の合計がなぜ違うか調べて。", "ja"),
        ("Znajdź błąd w tej funkcji i popraw go szybko.", None),
        ("", None),
    ],
)
def test_a_language_is_told_by_its_script_or_its_common_words(
    text: str, language: str | None
) -> None:
    assert speaks(text) == language


def test_a_shortened_word_ends_no_sentence_and_a_bullet_is_no_word() -> None:
    text = "- Use a queue, e.g. Redis. Then stop.\n* z. B. so\n1. 第一。第二！"

    assert list(sentences(text)) == [
        "Use a queue, e.g. Redis.",
        "Then stop.",
        "z. B. so",
        "第一。",
        "第二！",
    ]


@given(st.text(max_size=300))
def test_every_sentence_is_a_line_of_bounded_length_and_every_constraint_a_sentence(
    text: str,
) -> None:
    found = list(sentences(text))

    assert all(0 < len(sentence) <= SENTENCE and "\n" not in sentence for sentence in found)
    assert set(constraints(text)) <= set(found)


@pytest.mark.parametrize(
    "piece", ["不要。", ". ", "bitte nicht so ", "leave ", "- ", "```\n", '."', "ist nie, ist "]
)
def test_the_time_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    def seconds(size: int) -> float:
        started = time.process_time()
        list(constraints(piece * (size // len(piece))))
        return time.process_time() - started

    seconds(1_000)
    short, long = min(seconds(20_000) for _ in range(3)), seconds(200_000)

    assert long < 60 * max(short, 0.002)
