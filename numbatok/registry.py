"""The encodings that the package carries, by name.

Invariant: a name gives the same object in every thread, made once; encodings with the same vocabulary share its tables.
Encodings are pickled by their name, so that a worker process loads its own tables.

    >>> get_encoding("gpt2")
    <Encoding 'gpt2'>
"""

from __future__ import annotations

import copyreg
import functools
import threading

from numbatok.encoding import ENDOFTEXT, Encoding
from numbatok.model import Model, load_embedded

_VOCABULARIES = {"gpt2": "r50k_base", "r50k_base": "r50k_base"}
_SPECIALS = {"r50k_base": {ENDOFTEXT: 50256}}
_lock = threading.Lock()


def get_encoding(encoding_name: str) -> Encoding:
    """Give the encoding of a name; the same object for each call.

    Raises:
        ValueError: there is no encoding of this name; lists those that there are.

    >>> get_encoding("gpt2").n_vocab
    50257

    """
    if not isinstance(encoding_name, str):
        raise ValueError(f"Expected a string in get_encoding, got {type(encoding_name)}")
    with _lock:
        return _load(encoding_name)


def list_encoding_names() -> list[str]:
    """Give the names that :func:`get_encoding` knows.

    >>> list_encoding_names()
    ['gpt2', 'r50k_base']
    """
    return list(_VOCABULARIES)


@functools.cache
def _load(name: str) -> Encoding:
    vocabulary = _VOCABULARIES.get(name)
    if vocabulary is None:
        raise ValueError(f"Unknown encoding {name}. Available: {', '.join(_VOCABULARIES)}.")
    return Encoding._from_model(name, _model(vocabulary))


@functools.cache
def _model(vocabulary: str) -> Model:
    return load_embedded(vocabulary, _SPECIALS[vocabulary])


copyreg.pickle(Encoding, lambda encoding: (get_encoding, (encoding.name,)))
