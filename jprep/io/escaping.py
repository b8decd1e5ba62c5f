"""Escape text from outside, such as titles and file names, before it is shown on a terminal or in a log.

Such text may contain control characters that move the cursor, hide text or run commands (C0, ESC, C1), direction marks
that change the displayed order, line separators, and surrogates, which no output can encode.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides and isolates
    "\u2028\u2029"  # line and paragraph separators
    "\ud800-\udfff"  # surrogates
    "]"
)
_UNDECODED = range(0xDC80, 0xDD00)
"""Surrogates that represent single bytes of a file name or argument that is not UTF-8."""


def escaped(text: str) -> str:
    r"""Return the text with each unsafe character escaped, as `\x1b` or `\u202e`, and undecodable bytes as `\xff`.

    Newlines and tabs are kept. Text without unsafe characters is returned unchanged.
    """
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    r"""Return the text escaped, newlines and tabs too, so that a value cannot forge another line."""
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def escaped_json(text: str) -> str:
    r"""Return JSON with unsafe characters, which occur in strings only, as `\u` escapes; its meaning is unchanged."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _UNDECODED:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
