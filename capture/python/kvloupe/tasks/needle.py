"""A sentence to be found again in a long text, at each length and depth (kvloupe_niah, kvloupe_passkey). Nothing is downloaded.

--lengths and --depths (or the harness's --metadata: max_seq_lengths, depths, num_seeds) say which cells the grid has.
"""
import random

import datasets

LENGTHS, DEPTHS, SEEDS = (1024, 2048, 4096), (0, 25, 50, 75, 100), 50
NEW_TOKENS = 16

WHO = ("the baker", "an old sailor", "my neighbour", "the young doctor", "a quiet student", "the gardener", "our teacher", "the night guard",
       "a painter", "the shepherd", "the postman", "a tired traveller")
DID = ("walked past", "described", "looked for", "remembered", "drew a picture of", "wrote about", "stopped near", "asked about", "cleaned",
       "repaired", "forgot", "photographed")
WHAT = ("the stone bridge", "a wooden boat", "the green door", "the town hall", "a broken clock", "the apple tree", "the railway station",
        "an empty bench", "the lighthouse", "a small garden", "the library", "the tall chimney")
WHEN = ("in the morning", "before the rain came", "late in autumn", "on a cold evening", "after supper", "while the bells rang",
        "during the holidays", "at sunrise", "on market day", "without any hurry", "for the second time", "when nobody watched")
COLOURS = ("amber", "azure", "bronze", "coral", "crimson", "emerald", "golden", "indigo", "ivory", "maroon", "olive", "purple", "scarlet", "silver",
           "turquoise", "violet")
ANIMALS = ("badger", "beaver", "camel", "dolphin", "falcon", "heron", "lizard", "otter", "panther", "penguin", "rabbit", "raven", "spider", "turtle",
           "walrus", "weasel")
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


def niah(**options):
    """A magic number in a text of sentences that differ."""
    def texts(rng):
        key, number = f"{rng.choice(COLOURS)}-{rng.choice(ANIMALS)}", str(rng.randrange(10**6, 10**7))
        begin = "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the number afterwards.\n"
        needle = f"The special magic number for {key} is: {number}."
        end = f"\nWhat is the special magic number for {key} mentioned in the provided text?"
        return begin, needle, end, f"The special magic number for {key} mentioned in the provided text is", number, _sentence
    return _grid(texts, options)


def passkey(**options):
    """A pass key in a text of the same sentences over and over (Mohtashami and Jaggi, 2023)."""
    def texts(rng):
        number = str(rng.randrange(10000, 100000))
        begin = ("There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. "
                 "I will quiz you about the important information there.\n")
        needle = f"The pass key is {number}. Remember it. {number} is the pass key."
        return begin, needle, "\nWhat is the pass key?", "The pass key is", number, lambda _: NOISE
    return _grid(texts, options)


def found(doc, results):
    """Whether the answer has the number."""
    return {"found": float(doc["answer"] in results[0].replace(",", ""))}


def _grid(texts, options):
    tokenizer = _tokenizer(options)
    lengths, depths, seeds = options.get("max_seq_lengths", LENGTHS), options.get("depths", DEPTHS), range(int(options.get("num_seeds", SEEDS)))
    docs = [_document(texts, int(length), float(depth), seed, tokenizer) for length in lengths for depth in depths for seed in seeds]
    return {"test": datasets.Dataset.from_list(docs, split=datasets.Split.TEST)}


def _tokenizer(options):
    """That of the model kvloupe; of the harness's other models as RULER finds it."""
    from kvloupe.eval import lent_tokenizer
    if lent_tokenizer.is_lent():
        return lent_tokenizer.tokenizer
    from lm_eval.tasks.ruler.common_utils import get_tokenizer, resolve_tokenizer_name
    return get_tokenizer(resolve_tokenizer_name(options))


def _document(texts, length, depth, seed, tokenizer):
    """As many sentences as fit: prompt and answer have at most `length` tokens. The same seed hides the same needle in all cells."""
    rng = random.Random(f"kvloupe needle {seed}")
    begin, needle, end, prefix, answer, sentence = texts(rng)
    around = len(tokenizer(begin + needle + end + " " + prefix).input_ids) + NEW_TOKENS
    room, hay = length - around, []
    while room > 0:
        more = [sentence(rng) for _ in range(max(1, room // 24))]
        while (size := len(tokenizer(" ".join(more)).input_ids) + 1) > room and len(more) > 1:
            more = more[: len(more) // 2]
        if size > room:
            break
        hay += more
        room -= size
    at = round(len(hay) * depth / 100)
    text = " ".join([*hay[:at], needle, *hay[at:]])
    return {"input": begin + text + end, "gen_prefix": prefix, "answer": answer, "max_length": length, "depth": depth, "seed": seed}


def _sentence(rng):
    text = f"{rng.choice(WHO)} {rng.choice(DID)} {rng.choice(WHAT)} {rng.choice(WHEN)}."
    return text[0].upper() + text[1:]
