"""Encodings by name: those that the package carries, and those of tiktoken's plug-ins.

A plug-in is a module of the namespace package ``tiktoken_ext`` with a table ``ENCODING_CONSTRUCTORS``: name -> function
that gives the arguments of an :class:`Encoding`. Plug-ins are imported when a name is asked for that the package does
not carry, never before.
Invariant: a name gives the same object in every thread, made once; encodings with the same vocabulary share its tables.
An encoding that was got by name is pickled by its name, so that a worker process loads its own tables.

    >>> get_encoding("gpt2")
    <Encoding 'gpt2'>
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import os
import pkgutil
import threading
from collections.abc import Callable, Mapping
from typing import Any

from numbatok.bpe import Model, load_embedded
from numbatok.embedded import EMBEDDED
from numbatok.encoding import Encoding
from numbatok.split.patterns import split_of

Constructor = Callable[[], Mapping[str, Any]]

ENCODINGS: dict[str, Encoding] = {}
"""The encodings that have been made so far, by name; one that a program puts here is found by its name."""

TIKTOKENS_OWN = "tiktoken_ext.openai_public"
"""The plug-in that comes with tiktoken; all its encodings are embedded here, so it is left out."""

_lock = threading.RLock()
_models: dict[str, Model] = {}
_plugins: dict[str, str] | None = None
"""Encodings of plug-ins -> the module of the plug-in; None until they are read."""


def _renew_lock() -> None:
    """In a forked child: a thread that loads an encoding in the parent does not exist here, but its lock would."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def get_encoding(encoding_name: str) -> Encoding:
    """Give the encoding of a name; the same object for each call.

    Raises:
        ValueError: there is no encoding of this name (lists those that there are), a plug-in is faulty, or an encoding
            of a plug-in has a pattern without a split kernel.

    >>> get_encoding("gpt2").n_vocab
    50257

    """
    if not isinstance(encoding_name, str):
        raise ValueError(f"Expected a string in get_encoding, got {type(encoding_name)}")
    if (found := ENCODINGS.get(encoding_name)) is not None:
        return found
    with _lock:
        if encoding_name not in ENCODINGS:
            ENCODINGS[encoding_name] = _make(encoding_name)
        return ENCODINGS[encoding_name]


def list_encoding_names() -> list[str]:
    """Give the names that :func:`get_encoding` knows: those inside the package, then those of plug-ins.

    Raises:
        ValueError: a plug-in is faulty.

    >>> list_encoding_names()[:3]
    ['gpt2', 'r50k_base', 'p50k_base']

    """
    with _lock:
        _read_plugins()
        return list(ENCODING_CONSTRUCTORS)


def _make(name: str) -> Encoding:
    if name in EMBEDDED:
        return _load(name)
    if name not in ENCODING_CONSTRUCTORS:
        plugins = _read_plugins()
        if name not in ENCODING_CONSTRUCTORS:
            raise ValueError(
                f"Unknown encoding {name}. Plugins found: {sorted(set(plugins.values()))}. "
                f"Available: {', '.join(ENCODING_CONSTRUCTORS)}"
            )
    return _construct(name)


def _load(name: str) -> Encoding:
    embedded = EMBEDDED[name]
    twin = next((other for other in _models if EMBEDDED[other] == embedded), None)
    if twin is not None:
        _models[name] = _models[twin]
    else:
        _models[name] = load_embedded(embedded.vocabulary, embedded.specials, split_of(embedded.pattern))
    return Encoding._from_model(name, embedded.pattern, _models[name])


# ---- plug-ins --------------------------------------------------------------------------------------------------------


def _arguments(name: str) -> dict[str, Any]:
    """Give the arguments that would make an embedded encoding, as the constructors of tiktoken do."""
    made = get_encoding(name)
    return {
        "name": name,
        "pat_str": made._pat_str,
        "mergeable_ranks": dict(made._mergeable_ranks),
        "special_tokens": dict(made._special_tokens),
    }


ENCODING_CONSTRUCTORS: dict[str, Constructor] = {name: functools.partial(_arguments, name) for name in EMBEDDED}
"""Name -> function that gives the arguments of :class:`Encoding`; those of plug-ins join once they are read."""


def _read_plugins() -> dict[str, str]:
    """Let the constructors of all plug-ins join, or those of none if one is faulty; done once."""
    global _plugins
    if _plugins is not None:
        return _plugins
    owners: dict[str, str] = {}
    constructors: dict[str, Constructor] = {}
    for plugin in _plugin_modules():
        for name, constructor in _constructors_of(plugin).items():
            if name in ENCODING_CONSTRUCTORS or name in owners:
                raise ValueError(
                    f"Duplicate encoding name {name} in tiktoken plugin {plugin}: {owners.get(name, 'numbatok')} has "
                    "an encoding of this name. Uninstall one of the two, or give its encoding another name"
                )
            owners[name], constructors[name] = plugin, constructor
    ENCODING_CONSTRUCTORS.update(constructors)
    _plugins = owners
    return owners


def _plugin_modules() -> list[str]:
    try:
        import tiktoken_ext
    except ImportError:
        return []
    found = pkgutil.iter_modules(tiktoken_ext.__path__, f"{tiktoken_ext.__name__}.")
    return [module.name for module in found if module.name != TIKTOKENS_OWN]


def _constructors_of(plugin: str) -> dict[str, Constructor]:
    try:
        module = importlib.import_module(plugin)
    except Exception as error:
        error.add_note(f"This happened while numbatok imported the tiktoken plugin {plugin}.")
        raise
    if not hasattr(module, "ENCODING_CONSTRUCTORS"):
        raise ValueError(f"tiktoken plugin {plugin} does not define ENCODING_CONSTRUCTORS")
    constructors: dict[str, Constructor] = module.ENCODING_CONSTRUCTORS
    return constructors


def _construct(name: str) -> Encoding:
    """Make an encoding with the constructor of a plug-in, or one that the program has put into the table."""
    arguments = ENCODING_CONSTRUCTORS[name]()
    try:
        return Encoding(**arguments)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        plugin = (_plugins or {}).get(name, "the program")
        raise kind(f"encoding {name!r} of {plugin} cannot be made: {error}") from error


# ---- pickles ---------------------------------------------------------------------------------------------------------


def _reduce(encoding: Encoding) -> tuple[Callable[..., Encoding], tuple[Any, ...]]:
    name = encoding.name
    if ENCODINGS.get(name) is encoding and (name in EMBEDDED or name in (_plugins or {})):
        return get_encoding, (name,)
    return encoding._by_content()


copyreg.pickle(Encoding, _reduce)
