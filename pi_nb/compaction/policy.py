"""Policies by name: what decides, for a branch and a budget, what would be forgotten.

A policy is anything that is called with a branch and a budget and gives a plan, or says why
there is none. Some are built in (`policies/`), any function in a cell can be one:

    @pi_nb.policy
    def newest(branch, budget, keep=3):
        return [Summarise(first_kept_entry_id=branch.items[-keep].entry_id)]

    policy_named("newest:keep=5")     # as settings and magics name it
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, Protocol, overload, runtime_checkable

from pi_nb.result import PiError
from pi_nb.text import quoted, safe_line

from .branch import Branch
from .budget import Budget
from .operations import plan_of
from .plan import NothingToCompact, Omit, Operation, Plan, Replace, Summarise
from .policies.mask import Mask
from .policies.none import NoCompaction
from .policies.pi import Pi

Setting = int | float | bool | str
"""What a setting of a policy can be."""


class Policy(Protocol):
    """Decides what would go; pure, and it asks nobody."""

    @property
    def name(self) -> str:
        """What `policy_named` makes it from again: `pi`, `mask:keep=5`."""

    def __call__(self, branch: Branch, budget: Budget, /) -> Plan | NothingToCompact:
        """The plan, or why there is none."""


@runtime_checkable
class CutPolicy(Protocol):
    """A policy that chooses a cut and nothing else, and can do so without making a plan.

    A thousand settings over one branch then cost a thousand lookups.
    """

    def cut(self, branch: Branch, budget: Budget, /) -> int | None:
        """The place of the first kept item; None where nothing would go."""


Given = Plan | NothingToCompact | Iterable[Operation] | None
"""What a function may give: None is nothing to compact, operations become a plan."""


@dataclass(frozen=True, slots=True, repr=False)
class FunctionPolicy:
    """A policy that somebody wrote, with its settings; what it gives is checked.

    Called, it raises what the function raises, and `PiError` (`invalid_argument`, naming the
    policy) where that gave something that cannot be done; see `operations.plan_of`.
    """

    base: str
    function: Callable[..., Given]
    settings: tuple[tuple[str, Setting], ...] = ()
    """Those that were given; the others are the function's own defaults."""

    @property
    def name(self) -> str:
        return _named(self.base, dict(self.settings))

    def __call__(self, branch: Branch, budget: Budget, **settings: Any) -> Plan | NothingToCompact:
        given = self.function(branch, budget, **{**dict(self.settings), **settings})
        return self._checked(given, branch, budget)

    def _checked(self, given: Given, branch: Branch, budget: Budget) -> Plan | NothingToCompact:
        make = partial(plan_of, branch=branch, policy=self.name)
        match given:
            case None:
                return NothingToCompact(f"the policy {self.name} found nothing to do.")
            case NothingToCompact():
                return given
            case Plan() if given.leaf_id != branch.leaf:
                text = f"The policy {self.name} gave a plan that was made for another branch."
                raise PiError("invalid_argument", text)
            case Plan():
                return make(given.operations, budget=given.budget, reasons=given.reasons)
            case list() | tuple() if not given:
                return NothingToCompact(f"the policy {self.name} found nothing to do.")
            case list() | tuple():
                return make(given, budget=budget, reasons=(f"as {self.name} says",))
            case Summarise() | Omit() | Replace():
                return make([given], budget=budget, reasons=(f"as {self.name} says",))
        text = f"The policy {self.name} gave {_a(given)}"
        known = "a Plan, NothingToCompact, None, or a list of Summarise, Omit and Replace"
        raise PiError("invalid_argument", f"{text}; a policy gives {known}.")

    def __repr__(self) -> str:
        settings = {**_defaults(self.function), **dict(self.settings)}
        return f"{self.base}({', '.join(f'{k}={v!r}' for k, v in settings.items())})"


_BUILT_IN: Mapping[str, Callable[..., Policy]] = {"pi": Pi, "none": NoCompaction, "mask": Mask}
_functions: dict[str, Callable[..., Given]] = {}
_NAME = re.compile(r"[^\W\d][\w.-]*")


@overload
def policy(given: Callable[..., Given], /) -> FunctionPolicy: ...
@overload
def policy(given: str, /) -> Callable[[Callable[..., Given]], FunctionPolicy]: ...
def policy(
    given: str | Callable[..., Given], /
) -> FunctionPolicy | Callable[[Callable[..., Given]], FunctionPolicy]:
    """Make a policy of a function: `@policy`, or `@policy("name")`.

    The function takes a branch and a budget, and settings with defaults after them; it gives
    a `Plan`, a list of `Summarise`, `Omit` and `Replace`, `NothingToCompact` or None. From
    then on its name stands for it wherever a policy is asked for. Running the cell again
    replaces it.

    Raises:
        PiError: `invalid_argument`: a name that is built in or cannot be one, or a function
            that cannot be called with a branch and a budget.
    """
    if isinstance(given, str):
        return partial(_register, given)
    return _register(getattr(given, "__name__", ""), given)


def _register(name: str, function: Callable[..., Given]) -> FunctionPolicy:
    if not _NAME.fullmatch(name):
        said = f"{quoted(name)} cannot name a policy" if name else "this has no name of its own"
        raise PiError("invalid_argument", f'{said}; say @policy("name"), letters first.')
    if name in _BUILT_IN:
        raise PiError("invalid_argument", f"The policy {name} is built in; choose another name.")
    _callable(name, function)
    _functions[name] = function
    return FunctionPolicy(name, function)


def _callable(name: str, function: object) -> None:
    """Whether it can be called with a branch and a budget, looked at before anybody does."""
    if not callable(function):
        raise PiError("invalid_argument", f"A policy is a function, not {_a(function)}.")
    if inspect.iscoroutinefunction(function):
        text = f"The policy {safe_line(name)} is async; a policy waits for nobody."
        raise PiError("invalid_argument", text)
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        text = f"The policy {safe_line(name)} is called with a branch and a budget: {error}."
        raise PiError("invalid_argument", text) from None


def policies() -> dict[str, Policy]:
    """Every policy that has a name, with the settings it has when none are given."""
    own = {name: FunctionPolicy(name, function) for name, function in _functions.items()}
    return {**{name: make() for name, make in _BUILT_IN.items()}, **own}


def policy_named(text: str) -> Policy:
    """A policy from its name and settings: `pi`, `mask:keep=5`, `mine:share=0.5,late=true`.

    Raises:
        PiError: `invalid_argument`: no such policy or setting (those that there are are
            listed), or a value of the wrong kind.
    """
    base, _, rest = text.strip().partition(":")
    base = base.strip()
    if base not in _BUILT_IN and base not in _functions:
        there = ", ".join([*_BUILT_IN, *_functions])
        raise PiError("invalid_argument", f"There is no policy {quoted(base)}; there is {there}.")
    make: Callable[..., Any] = _BUILT_IN.get(base) or _functions[base]
    settings = dict(_settings(base, rest, _defaults(make)))
    if base in _BUILT_IN:
        built: Policy = make(**settings)
        return built
    return FunctionPolicy(base, make, tuple(settings.items()))


def as_policy(given: str | Policy | Callable[..., Given]) -> Policy:
    """Whatever stands for a policy, as one: a name, a policy, or a function that may be one.

    What is not built in is checked when it is used.
    """
    if isinstance(given, str):
        return policy_named(given)
    if isinstance(given, FunctionPolicy | Pi | NoCompaction | Mask):
        return given
    inner: Any = given
    settings: dict[str, Any] = {}
    while isinstance(inner, partial):
        settings = {**inner.keywords, **settings}
        inner = inner.func
    name = getattr(inner, "name", None) or getattr(inner, "__name__", None) or repr(inner)
    if not isinstance(name, str):
        raise PiError("invalid_argument", f"{_a(given)} has a name that is no text.")
    _callable(name, given)
    function: Callable[..., Given] = given
    return FunctionPolicy(_named(name, settings), function)


def _named(base: str, settings: Mapping[str, Any]) -> str:
    said = ",".join(f"{name}={_written(value)}" for name, value in settings.items())
    return f"{base}:{said}" if said else base


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else safe_line(str(value))


def _defaults(made_by: Callable[..., Any]) -> dict[str, Any]:
    """The settings of a policy and what they are when nobody says otherwise."""
    if isinstance(made_by, type) and is_dataclass(made_by):
        return {field.name: field.default for field in fields(made_by)}
    found = inspect.signature(made_by).parameters.values()
    return {p.name: p.default for p in found if p.default is not inspect.Parameter.empty}


def _settings(base: str, text: str, known: Mapping[str, Any]) -> Iterable[tuple[str, Setting]]:
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in known or not equals:
            there = ", ".join(f"{key}={_written(known[key])}" for key in known) or "none"
            what = f"no setting {quoted(name)}" if equals else f"{quoted(part)} is not name=value"
            raise PiError("invalid_argument", f"The policy {base}: {what}; its settings: {there}.")
        yield name, _value(f"{base}:{name}", value, known[name])


def _value(what: str, text: str, default: object) -> Setting:
    """A value of the kind that the default is."""
    kind = type(default)
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is str:
        return text
    try:
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
    except ValueError:
        pass
    kinds = {bool: "true or false", int: "a whole number", float: "a number"}
    if kind not in kinds:
        text = f"{what} holds {_a(default)} and cannot be set by text; use functools.partial."
        raise PiError("invalid_argument", text)
    raise PiError("invalid_argument", f"{what} is {kinds[kind]}, not {quoted(text)}.")


def _a(value: object) -> str:
    """What kind of thing it is, for a message."""
    return f"a value of type {type(value).__name__}"
