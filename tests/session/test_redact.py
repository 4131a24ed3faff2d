"""What is left out of a text, and what is not."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from strategies import json_values, texts

from pi_nb.result import PiError
from pi_nb.session.redact import Redaction, Redactor


def _redacted(text: str, **chosen: object) -> tuple[str, dict[str, int]]:
    redactor = Redactor(Redaction(**chosen))  # type: ignore[arg-type]
    redactor.learn(text)
    return redactor.text(text), dict(redactor.counts)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("see /home/ada/notes.md", "see ~/notes.md"),
        ("/Users/ada/x and /home/grace", "~/x and ~"),
        (r"C:\Users\ada\x", r"~\x"),
        (r"C:\Users\Ada Lovelace\x.txt", r"~\x.txt"),
        (r'{"p": "C:\\Users\\ada\\x"}', r'{"p": "~\\x"}'),
        ("file:///home/ada/x", "file:///home/[user]/x"),
        ("/mnt/old/home/ada/x", "/mnt/old/home/[user]/x"),
        ("%2Fhome%2Fada%2Fx", "~%2Fx"),
        ("in /home/ada.", "in ~."),
        ("/home/ada and ssh ada@box, Ada's, adamant", "~ and ssh [user]@box, [user]'s, adamant"),
        ("--home-ada-shop-- of /home/ada", "--home-[user]-shop-- of ~"),
        ("/home/user/x by the user", "~/x by the user"),
        ("/home/$USER and /home/{name}", "/home/$USER and /home/{name}"),
        ("at home / Users: none", "at home / Users: none"),
    ],
)
def test_home_folders_and_their_users_are_left_out(text: str, left: str) -> None:
    assert _redacted(text)[0] == left


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF0123456789",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0abcdefghij_klmnopqrst",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefGHIJKL",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_keys_of_known_forms_are_left_out(secret: str) -> None:
    text, counts = _redacted(f"export X='{secret}' and go on")

    assert text == "export X='[key]' and go on"
    assert counts == {"keys": 1}


def test_what_is_assigned_to_a_secret_name_is_left_out_and_code_is_not() -> None:
    assert _redacted("MY_API_KEY=abc123def456")[0] == "MY_API_KEY=[key]"
    assert _redacted('password: "hunter2hunter2"')[0] == 'password: "[key]"'
    assert _redacted("https://ada:pa55@x.org/y")[0] == "https://[key]@x.org/y"
    for code in ("token = next_token()", "max_tokens: 16384000", "secret = None"):
        assert _redacted(code)[0] == code


def test_a_key_of_this_process_is_left_out_wherever_it_was_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRANGE_API_KEY", "no-form-that-anybody-knows")

    assert _redacted("it printed no-form-that-anybody-knows")[0] == "it printed [key]"


def test_fields_with_secret_names_lose_their_values_in_any_form() -> None:
    redactor = Redactor(Redaction())

    done = redactor.data({"password": "short", "headers": {"Authorization": "x y"}, "tokens": "9"})

    assert done == {"password": "[key]", "headers": {"Authorization": "[key]"}, "tokens": "9"}


@pytest.mark.parametrize(
    "before",
    ["\x1b[31m", "\x1b[01;31m\x1b[K", "\x1b[m", "\\n", "\\t", "\\u001b[1m", "X%3D", "\\u0022"],
    ids=repr,
)
@pytest.mark.parametrize(
    "hidden",
    ["ghp_16C7e42F292c6912E7710c838347Ae178B4a", "sk-proj-abcDEF0123456789", "/home/ada", "Zoe"],
)
def test_no_escape_before_a_word_hides_it(before: str, hidden: str) -> None:
    text, counts = _redacted(f"{before}{hidden}\x1b[0m and ada", names=("Zoe",))

    assert hidden not in text
    assert "ada" not in text or hidden != "/home/ada"
    assert sum(counts.values()) >= 1


@pytest.mark.parametrize(
    "written", ["ghp_\x1b[m\x1b[K16C7e42F292c6912E7710c838347Ae178B4a", "Zo\x1b[1me", "Zoo\be"]
)
def test_what_only_a_terminal_would_show_is_left_out_as_well(written: str) -> None:
    text, counts = _redacted(f"a {written} b", names=("Zoe",))

    assert text in ("a [key] b", "a [name] b")
    assert sum(counts.values()) == 1


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (r"{\"api_key\": \"abcd1234efgh\"}", r"{\"api_key\": \"[key]\"}"),
        ("--password hunter2hunter -v", "--password [key] -v"),
        ("my secret token=abc12345x", "my secret token=[key]"),
        ("password=p4$$w0rd!x", "password=[key]"),
        ("token%3Dabcd1234efgh", "token%3D[key]"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [key]"),
        ("the token abcdef123 of line 7", "the token abcdef123 of line 7"),
    ],
)
def test_a_value_is_found_in_every_spelling_of_an_assignment(text: str, left: str) -> None:
    assert _redacted(text)[0] == left


def test_a_private_key_with_a_header_is_left_out_to_its_end() -> None:
    body = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0FF1CE\n\nMIIEsecretbody"

    for kind in ("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        whole = f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"
        assert _redacted(f"a {whole} b")[0] == "a [key] b"


def test_the_values_of_secret_fields_go_whatever_they_are_made_of() -> None:
    redactor = Redactor(Redaction())
    given = {"password": 1234, "api_keys": ["a", 5], "HF_TOKEN": "word", "secret": {"x": None}}

    done = redactor.data({**given, "total_tokens": 9, "secret_ok": True})

    hidden = {"password": "[key]", "api_keys": ["[key]", "[key]"], "HF_TOKEN": "[key]"}
    assert done == {**hidden, "secret": {"x": None}, "total_tokens": 9, "secret_ok": True}


@pytest.mark.parametrize("path", ["/mnt/c/Users/ada/x", "/c/Users/ada", "/var/home/ada/x"])
def test_a_home_folder_that_lies_deeper_names_its_user_too(path: str) -> None:
    assert "ada" not in _redacted(f"{path} by ada")[0]


@pytest.mark.slow
@pytest.mark.parametrize("hostile", ["-eyJ", "://a:b", "password=", "-----BEGIN PRIVATE KEY-----"])
def test_no_text_keeps_a_redaction_busy_for_long(hostile: str) -> None:
    begun = time.monotonic()

    _redacted(hostile * 20_000)

    assert time.monotonic() - begun < 5


def test_names_are_whole_words_in_any_case_and_any_composition() -> None:
    composed, apart = (unicodedata.normalize(form, "José") for form in ("NFC", "NFD"))

    text, counts = _redacted(
        f"ADA, ada_1 and adamant; {composed} and {apart}; 王伟说", names=("Ada", "José", "王伟")
    )

    assert text == "[name], [name]_1 and adamant; [name] and [name]; [name]说"
    assert counts == {"names": 5}


def test_patterns_see_the_text_before_anything_else_is_left_out() -> None:
    text, counts = _redacted("/home/ada/secret-plan by Ada", names=("Ada",), patterns=("secret.*",))

    assert text == "~/[left out]"
    assert counts == {"patterns": 1, "home folders": 1}


@pytest.mark.parametrize(
    "wrong", [{"patterns": ("[",)}, {"patterns": ("x*",)}, {"names": ("",)}, {"names": (" ",)}]
)
def test_what_would_leave_out_nothing_or_everything_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(PiError) as refused:
        Redactor(Redaction(**wrong))  # type: ignore[arg-type]

    assert refused.value.code == "invalid_argument"


def test_two_fields_that_become_the_same_stay_two() -> None:
    redactor = Redactor(Redaction(names=("Ada", "Grace")))

    assert redactor.data({"Ada": 1, "Grace": 2}) == {"[name]": 1, "[name] 2": 2}


def test_a_redaction_does_not_show_what_it_hides() -> None:
    assert "Ada" not in repr(Redaction(names=("Ada",), patterns=("Lovelace",)))


@given(json_values)
def test_data_keeps_its_shape_and_everything_that_is_no_text(value: object) -> None:
    def shape(data: object) -> object:
        if isinstance(data, dict):
            return [shape(item) for item in data.values()]
        return [shape(item) for item in data] if isinstance(data, list) else type(data)

    done = Redactor(Redaction(names=("a", "b"))).data(value)

    assert shape(done) == shape(value)


@given(texts, texts)
def test_a_name_never_survives_between_other_words(before: str, after: str) -> None:
    text, _ = _redacted(f"{before} Zanzibarine {after}", names=("Zanzibarine",))

    assert "zanzibarine" not in text.casefold()
