"""Tiny tokenizers as folders of models have them: BERT's, Llama's, and one without special tokens."""

import json
from pathlib import Path

TEXTS = ["the cat sat on the mat", "the dog saw a cat", "a long sentence about dogs, cats and mats", "ünïcode é"]


def write_tokenizer(folder: Path, form: str, vocab_size: int = 320) -> Path:
    """Train a tokenizer on a few words and write ``tokenizer.json`` and ``tokenizer_config.json``.

    Args:
        folder: The folder, which is made.
        form: ``bert``: WordPiece with [CLS] a [SEP] b [SEP]; ``llama``: bytes with <s> a <s> b and without a padding
            token; ``bare``: bytes and one end token.
        vocab_size: Largest number of tokens.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    if form == "bert":
        names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        tokens = ["[PAD]", *list(names.values())[:3]]
        trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=tokens, show_progress=False)
    else:
        names = {"bos_token": "<s>", "eos_token": "</s>"} if form == "llama" else {"eos_token": "</s>"}
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=list(names.values()), initial_alphabet=alphabet, show_progress=False
        )
    tokenizer.train_from_iterator(TEXTS, trainer)
    single, pair = {
        "bert": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
        "llama": ("<s> $A", "<s> $A <s> $B"),
    }.get(form, ("", ""))
    if single:
        special = [(token, tokenizer.token_to_id(token)) for token in names.values()]
        tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    kind = {"tokenizer_class": "BertTokenizer"} if form == "bert" else {}
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, **kind}))
    return folder
