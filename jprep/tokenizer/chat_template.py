"""The chat template of a tokenizer: its own, or a simple one for the special tokens that it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.errors import ConfigError
from jprep.tokenizer.external.files import read_json
from jprep.tokenizer.external.roles import token_text
from jprep.tokenizer.formats.file_names import TOKENIZER_CONFIG_JSON
from jprep.tokenizer.special_tokens import ROLES

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

CHAT_TEMPLATE = "chat_template.jinja"

MARKERS = ("<|im_start|>", "<|im_end|>")
"""Special tokens that begin and end a message, if the tokenizer has both."""

_RESERVED = ("<|reserved_0|>", "<|reserved_1|>")
_PLAIN_START = "### "

_BUILT_IN = """{{%- for message in messages -%}}
{{{{- {start} + message['role'] + '\\n' + (message['content'] | trim) + {end} + '\\n' -}}}}
{{%- endfor -%}}
{{%- if add_generation_prompt -%}}
{{{{- {start} + 'assistant\\n' -}}}}
{{%- endif -%}}
"""


def own_template(folder: Path) -> str:
    """Return the chat template in a tokenizer's folder; "" if it has none.

    Raises:
        InputError: a file is damaged.
    """
    path = folder / CHAT_TEMPLATE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    found: Any = read_json(folder / TOKENIZER_CONFIG_JSON).get("chat_template") or ""
    if isinstance(found, list):  # several, of which one is the default
        found = {each.get("name"): each.get("template") for each in found}.get("default") or ""
    return str(found)


def role_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the special tokens that transformers gives to templates, by name: `eos_token` and so on."""
    names, special = [f"{role}_token" for role in ROLES], tokenizer.special
    stated = read_json(tokenizer.folder / TOKENIZER_CONFIG_JSON) or {
        name: getattr(special, role) for name, role in zip(names, ROLES, strict=True)
    }
    return {name: token for name in names if (token := token_text(stated.get(name)))}


def built_in_template(tokenizer: Tokenizer) -> str:
    """Return a template in which each message is START role newline content END newline.

    START and END are `<|im_start|>` and `<|im_end|>` if the tokenizer has them as special tokens; else its first two
    reserved ones; else START is `### ` and END the token that ends documents.

    Raises:
        ConfigError: no token could end a message.
    """
    special = tokenizer.special
    for start, end in (MARKERS, _RESERVED):
        if {start, end} <= set(special.tokens):
            return _filled(start, end)
    if end := special.eos or special.sep:
        return _filled(_PLAIN_START, end)
    fix = f'special = ["gpt", "{MARKERS[0]}", "{MARKERS[1]}"] under [tokenizer]; or give train.sft.template'
    raise ConfigError("this tokenizer has no token that could end a message", where=str(tokenizer.folder), fix=fix)


def _filled(start: str, end: str) -> str:
    return _BUILT_IN.format(start=_literal(start), end=_literal(end))


def _literal(text: str) -> str:
    """Return a string of Jinja."""
    return json.dumps(text, ensure_ascii=False)
