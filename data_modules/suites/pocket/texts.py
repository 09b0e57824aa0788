"""Pocket texts: three small language tasks that are generated in a second and need no download.

They mirror the tasks of TAL's Table 6: whether a review is positive (IMDB), a sentence is well formed (CoLA), two
sentences have the same meaning (MRPC). They are meant for tests, demonstrations and first experiments. No claim about
the real sets may rest on them.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from data_modules.base import DatasetInfo, Split
from data_modules.text.module import TextSet
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.files import atomic_path

VOCABULARY = "pocket_vocab"
VOCAB_SIZE = 1024
SIZES = {"train": 1_200, "val": 300, "test": 600}

THINGS = ("plot", "music", "acting", "story", "ending", "camera", "cast", "humour", "pace", "script")
KIND = ("wonderful", "charming", "brilliant", "funny", "moving", "fresh", "clever", "lovely")
UNKIND = ("dull", "awful", "clumsy", "boring", "weak", "stale", "silly", "tired")
NOUNS = ("dog", "cat", "teacher", "farmer", "singer", "doctor", "bird", "horse", "robot", "pilot")
VERBS = {"see": "notice", "like": "enjoy", "help": "assist", "follow": "chase", "call": "phone", "want": "desire"}
QUALITIES = {"small": "little", "old": "aged", "quick": "fast", "big": "large", "happy": "glad", "calm": "quiet"}
SYNONYMS = {
    **VERBS, **{f"{word}s": f"{other}s" for word, other in VERBS.items()}, **QUALITIES, "the": "this", "every": "each",
}  # fmt: skip

Rng = np.random.Generator
Texts = tuple[str, ...]


def _review(rng: Rng, label: int) -> Texts:
    """Three or five clauses, of which most agree with the class; one in eight negates a word of the other class."""
    clauses = int(rng.choice([3, 5]))
    dissent = int(rng.random() < 0.3)
    verdicts = rng.permutation([label] * (clauses - dissent) + [1 - label] * dissent)
    said = []
    for thing, verdict in zip(rng.permutation(THINGS)[:clauses], verdicts, strict=True):
        denied = rng.random() < 0.125
        words = KIND if verdict != denied else UNKIND
        said.append(f"the {thing} is {'not ' * denied}{rng.choice(words)}")
    return (" and ".join(said),)


def _sentence(rng: Rng) -> list[str]:
    """A sentence such as ``every old dog sees the horse``; it may have no adjective."""
    subject, object_ = rng.choice(NOUNS, 2, replace=False)
    quality = [str(rng.choice(list(QUALITIES)))] if rng.random() < 0.6 else []
    verb = str(rng.choice(list(VERBS)))
    if rng.random() < 0.5:
        return [str(rng.choice(["the", "every"])), *quality, str(subject), f"{verb}s", "the", str(object_)]
    return ["the", *quality, f"{subject}s", verb, "the", str(object_)]


def _judgement(rng: Rng, label: int) -> Texts:
    """A sentence; for class 0 its verb does not agree, its article follows its noun, or it has no verb."""
    words = _sentence(rng)
    if label == 0:
        fault = rng.integers(3)
        verb = len(words) - 3
        if fault == 0:
            words[verb] = words[verb].removesuffix("s") if words[verb].endswith("s") else f"{words[verb]}s"
        elif fault == 1:
            words[-2:] = words[:-3:-1]
        else:
            del words[verb]
    return (" ".join(words),)


def _paraphrase(rng: Rng, label: int) -> Texts:
    """A sentence and its paraphrase; for class 0 one noun of the paraphrase is another one."""
    words = _sentence(rng)
    others = [SYNONYMS.get(word, word) if rng.random() < 0.7 else word for word in words]
    if label == 0:
        k = int(rng.choice([len(words) - 1, len(words) - 4]))
        plural = "s" * words[k].endswith("s")
        others[k] = str(rng.choice([noun for noun in NOUNS if f"{noun}{plural}" not in words])) + plural
    return " ".join(words), " ".join(others)


_WRITERS: dict[str, Callable[[Rng, int], Texts]] = {
    "pocket_reviews": _review,
    "pocket_grammar": _judgement,
    "pocket_paraphrases": _paraphrase,
}


def _make(name: str) -> dict[Split, list[tuple[int, Texts]]]:
    """Balanced splits without repeated texts."""
    write = _WRITERS[name]
    rng = np.random.default_rng(list(_WRITERS).index(name))
    made: dict[Texts, int] = {}
    counts = [0, 0]
    while len(made) < sum(SIZES.values()):
        label = int(counts[1] < counts[0])
        texts = write(rng, label)
        if texts not in made:
            made[texts] = label
            counts[label] += 1
    rows = [(label, texts) for texts, label in made.items()]  # the classes alternate
    last_train = SIZES["train"]
    last_val = SIZES["train"] + SIZES["val"]
    return {"train": rows[:last_train], "val": rows[last_train:last_val], "test": rows[last_val:]}


def write_vocabulary(folder: Path) -> None:
    """Write a tokenizer of GPT-2 for these tasks: all bytes, a token for each word, unused ones up to 1,024.

    Every merge extends the beginning of a word by one letter, so that the merges of different words do not interfere.
    """
    with extra("nlp", "pocket texts"):
        from tokenizers.pre_tokenizers import ByteLevel
        from transformers import GPT2Tokenizer
    words = {*THINGS, *KIND, *UNKIND, *SYNONYMS, *SYNONYMS.values(), *NOUNS, *(f"{noun}s" for noun in NOUNS)}
    words |= {"is", "not", "and"}
    merges = dict.fromkeys(("Ġ" + word[:k], letter) for word in sorted(words) for k, letter in enumerate(word))
    tokens = [*sorted(ByteLevel.alphabet()), *map("".join, merges)]
    tokens += [f"<unused{k}>" for k in range(VOCAB_SIZE - 1 - len(tokens))] + ["<|endoftext|>"]
    tokenizer = GPT2Tokenizer(vocab={token: number for number, token in enumerate(tokens)}, merges=list(merges))
    with atomic_path(folder) as temporary:
        tokenizer.save_pretrained(temporary)


class PocketText(TextSet):
    """A pocket task of texts; ``prepare_data`` makes it and the common vocabulary if they are absent.

    The vocabulary is at ``root/pocket_vocab`` and has 1,024 tokens, which the architecture must state.
    """

    vocabulary = VOCABULARY, VOCAB_SIZE
    layout = "run `lgx data prepare {name} --root {root}`"

    def prepare_data(self) -> None:
        """Make the absent files. Several processes may do so at once: they make the same files."""
        if self.source == "hub":
            raise UserError(f"data.source: {self.info.name} is generated here; leave data.source at files")
        if not (self.root_folder / VOCABULARY).is_dir():
            write_vocabulary(self.root_folder / VOCABULARY)
        if self.folder.is_dir():
            return
        with atomic_path(self.folder) as temporary:
            temporary.mkdir()
            for split, rows in _make(self.info.name).items():
                lines = ["\t".join([*self.columns, self.label])]
                lines += ["\t".join([*texts, str(label)]) for label, texts in rows]
                (temporary / f"{split}.tsv").write_text("\n".join([*lines, ""]), encoding="utf-8")


_info = partial(
    DatasetInfo,
    num_classes=2,
    sizes=(SIZES["train"], SIZES["val"], SIZES["test"]),
    license="none needed (generated)",
    splits="balanced, no text in two splits",
    kind="text",
)


class PocketReviews(PocketText):
    """Whether most clauses of a review praise, in the place of IMDB; the metric is accuracy."""

    info = _info("pocket_reviews", class_names=("unkind", "kind"), source="seeded generator; mirrors IMDB")


class PocketGrammar(PocketText):
    """Whether a sentence is well formed, in the place of CoLA; the metric is accuracy."""

    info = _info("pocket_grammar", class_names=("unacceptable", "acceptable"), source="seeded generator; mirrors CoLA")


class PocketParaphrases(PocketText):
    """Whether two sentences have the same meaning, in the place of MRPC; the metric is accuracy."""

    info = _info(
        "pocket_paraphrases", class_names=("no paraphrase", "paraphrase"), source="seeded generator; mirrors MRPC"
    )
    columns = ("sentence1", "sentence2")
