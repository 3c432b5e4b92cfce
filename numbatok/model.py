"""Which encoding the models of OpenAI use, by name or by the start of the name.

Invariant: an exact name wins over a prefix, and a longer prefix over a shorter one.

    >>> encoding_name_for_model("gpt-4o-mini")
    'o200k_base'
"""

from __future__ import annotations

from numbatok.encoding import Encoding
from numbatok.registry import get_encoding

_PREFIXES = {
    "o200k_base": ("o1-", "o3-", "o4-mini-", "gpt-5", "gpt-4.5-", "gpt-4.1-", "chatgpt-4o-", "gpt-4o-", "ft:gpt-4o"),
    "cl100k_base": (
        "gpt-4-",
        "gpt-3.5-turbo-",
        "gpt-35-turbo-",
        "ft:gpt-4",
        "ft:gpt-3.5-turbo",
        "ft:davinci-002",
        "ft:babbage-002",
    ),
    "o200k_harmony": ("gpt-oss-",),
}
_SIZES = ("ada", "babbage", "curie", "davinci")
_MODELS = {
    "o200k_base": ("o1", "o3", "o4-mini", "gpt-5", "gpt-4.1", "gpt-4o"),
    "cl100k_base": (
        "gpt-4",
        "gpt-3.5-turbo",
        "gpt-3.5",
        "gpt-35-turbo",
        "davinci-002",
        "babbage-002",
        "text-embedding-ada-002",
        "text-embedding-3-small",
        "text-embedding-3-large",
    ),
    "p50k_base": (
        "text-davinci-003",
        "text-davinci-002",
        *(f"code-{size}-00{number}" for size in ("davinci", "cushman") for number in (2, 1)),
        "davinci-codex",
        "cushman-codex",
    ),
    "p50k_edit": ("text-davinci-edit-001", "code-davinci-edit-001"),
    "r50k_base": (
        *_SIZES,
        *(f"text-{size}-001" for size in _SIZES),
        *(f"text-similarity-{size}-001" for size in _SIZES),
        *(f"text-search-{size}-doc-001" for size in _SIZES),
        *(f"code-search-{size}-code-001" for size in ("babbage", "ada")),
    ),
    "gpt2": ("gpt2", "gpt-2"),
}

MODEL_TO_ENCODING = {model: encoding for encoding, models in _MODELS.items() for model in models}
MODEL_PREFIX_TO_ENCODING = {prefix: encoding for encoding, prefixes in _PREFIXES.items() for prefix in prefixes}


def encoding_name_for_model(model_name: str) -> str:
    """Give the name of the encoding that a model uses.

    Raises:
        KeyError: the model is not known; its encoding can be named with get_encoding.

    """
    if model_name in MODEL_TO_ENCODING:
        return MODEL_TO_ENCODING[model_name]
    prefixes = [prefix for prefix in MODEL_PREFIX_TO_ENCODING if model_name.startswith(prefix)]
    if not prefixes:
        raise KeyError(
            f"Could not automatically map {model_name} to a tokeniser. Name the encoding: numbatok.get_encoding(...)"
        )
    return MODEL_PREFIX_TO_ENCODING[max(prefixes, key=len)]


def encoding_for_model(model_name: str) -> Encoding:
    """Give the encoding that a model uses.

    Raises:
        KeyError: the model is not known.

    """
    return get_encoding(encoding_name_for_model(model_name))
