"""The raw bytes of a token: one may hold part of a UTF-8 character, which decoding alone would lose."""
import json
import re

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_table():
    """The letters that byte-level BPE writes bytes as: printable ones stand for themselves, the others follow from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(value): value for value in printable}
    others = [value for value in range(256) if value not in printable]
    table.update({chr(256 + i): value for i, value in enumerate(others)})
    return table


class TokenText:
    """bytes_of(id) by a tokenizer of transformers."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self._added = {id: str(token) for id, token in getattr(tokenizer, "added_tokens_decoder", {}).items()}
        self._letters = byte_table() if "ByteLevel" in _decoder_kinds(tokenizer) else None
        self._spaced = bool(_decoder_kinds(tokenizer) & {"ByteFallback", "Metaspace", "Replace"})

    def bytes_of(self, id):
        if id in self._added:
            text = self._added[id]
            return (text.replace("\u2581", " ") if self._letters is None and self._spaced else text).encode()
        word = self._tokenizer.convert_ids_to_tokens(id)
        if word is None:  # Models have more rows than their tokenizer has tokens.
            return b""
        if self._letters is not None and all(letter in self._letters for letter in word):
            return bytes(self._letters[letter] for letter in word)
        byte = _BYTE.fullmatch(word)
        if self._spaced and byte:
            return bytes([int(byte[1], 16)])
        if self._spaced:
            return word.replace("\u2581", " ").encode()
        return self._tokenizer.decode([id]).encode()


def _decoder_kinds(tokenizer):
    """Types of the steps by which a fast tokenizer joins tokens; empty for one written in Python."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.loads(backend.to_str())["decoder"] if backend is not None else None
    steps = [decoder, *(decoder or {}).get("decoders", [])] if decoder else []
    return {step["type"] for step in steps}
