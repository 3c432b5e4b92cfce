"""tiktoken's module of the same name: its class, and the error that a disallowed special token raises.

Invariant: nothing is defined here; ``tiktoken.core.Encoding`` and ``tiktoken.Encoding`` are one class.

    >>> import numbatok
    >>> Encoding is numbatok.Encoding
    True
"""

from numbatok.encoding import Encoding
from numbatok.special import raise_disallowed_special_token

__all__ = ["Encoding", "raise_disallowed_special_token"]
