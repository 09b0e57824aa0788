"""Texts of reviews for a language model, and a byte-pair tokenizer with 8,192 tokens that is trained on them.

    python -m experiments.text.movie_texts data runs/texts

The reviews are those of the IMDB subset (``lgx data prepare imdb_subset``). Training texts are its training reviews and
its validation reviews but 150. These 150, and the first 150 of its test, are held out.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

_END = "<|endoftext|>"
_HELD_OUT = 150


def write_texts(sets: Path, out: Path) -> None:
    """Write ``out/{train,val,test}.jsonl`` and ``out/tokenizer/tokenizer.json``."""
    train, val, test = (_reviews(sets / "imdb_subset" / f"{name}.jsonl") for name in ("train", "validation", "test"))
    train += val[_HELD_OUT:]
    (out / "tokenizer").mkdir(parents=True, exist_ok=True)
    for name, reviews in {"train": train, "val": val[:_HELD_OUT], "test": test[:_HELD_OUT]}.items():
        lines = "".join(json.dumps({"text": text}) + "\n" for text in reviews)
        (out / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8192, special_tokens=[_END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(train, trainer)
    tokenizer.save(str(out / "tokenizer" / "tokenizer.json"))
    (out / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"eos_token": _END}))


def _reviews(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


if __name__ == "__main__":
    write_texts(Path(sys.argv[1]), Path(sys.argv[2]))
