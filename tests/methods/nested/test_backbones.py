"""Encoders of every size in the space of their ancestor: their scores, exports and vectors."""

import json
import shlex
import shutil

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.nn.functional import normalize

from data_modules import UnlabeledTexts
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.vector_space import read_space
from lgx.commands import api
from lgx.components.teacher import Teacher, TeacherRequest
from lgx.errors import UserError
from lgx.methods.nested.kept_features import KeptFeatures
from tests.methods.nested.test_family import front_of
from tests.planning.helpers import plan
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.extras import import_transformers, need_onnx
from tests.support.fake_hub import running_hub, use_hub
from tests.support.families import tiny
from tests.support.images import write_images
from tests.support.tokenizers_of_models import write_tokenizer

SIZES = '--model.sizes=["depth=2","depth=1,embed_dim=16,mlp_ratio=1"]'


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A BERT with a tokenizer, in the folder of sentence-transformers; the mean of the tokens is its vector."""
    transformers = import_transformers()
    folder = write_tokenizer(tmp_path_factory.mktemp("bert") / "encoder", "bert")
    words = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    torch.manual_seed(1)
    sizes = {"num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=words + 2, max_position_embeddings=24, initializer_range=0.3, **sizes)
    transformers.BertModel(config).eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """Lines of texts."""
    file = tmp_path_factory.mktemp("lines") / "sentences.txt"
    words = ["cat", "dog", "mat", "saw", "about", "long"]
    lines = [" ".join(["the", *(words[k // 6**place % 6] for place in range(3))]) for k in range(200)]
    file.write_text("\n".join(lines) + "\n\n")
    return file


def words_of_texts(encoder, sentences, runs, *options):
    base = [w for w in arguments("fit", "Backbones", sentences, runs) if not w.startswith(("--data", "--model.arch"))]
    data = ["--data=UnlabeledTexts", f"--data.root={sentences}", f"--data.tokenizer={encoder}"]
    return [*base, *data, f"--model.ancestor={encoder}", SIZES, *options]


def of_texts(*given):
    return lgx(*words_of_texts(*given))


@pytest.fixture(scope="module")
def texts(encoder, sentences, tmp_path_factory):
    """The folder of a run on texts."""
    runs = tmp_path_factory.mktemp("texts")
    ok(
        of_texts(
            encoder,
            sentences,
            runs,
            "--data.batch_size=16",
            "--trainer.max_epochs=4",
            "--name=t",
            "--data.val_fraction=0.2",
        )
    )
    return runs / "test/t/seed0"


@pytest.fixture(scope="module")
def pictures(images, ancestor, tmp_path_factory):
    """The folder of a run on images."""
    runs = tmp_path_factory.mktemp("pictures")
    given = [f"--model.ancestor={ancestor}", SIZES.replace("16", "8"), "--data.labels=false", "--name=p"]
    ok(lgx(*arguments("fit", "Backbones", images, runs, *given, "--trainer.max_epochs=2")))
    return runs / "test/p/seed0"


def vectors_of(files, model, out, *options):
    ok(lgx("predict", files, "--model", model, "--out", out, *options))
    return torch.from_numpy(np.load(out))


def test_a_budget_gives_the_encoder_that_shares_most_nearest_neighbors_with_the_ancestor(texts, tmp_path):
    rows = front_of(texts)
    assert len(rows) > 8
    assert all(row["network"] == "slice" for row in rows)
    assert all(0 <= float(row[f"val_{key}"]) <= 1 for row in rows for key in ("nn_top1", "nn_top10", "cross_nn"))
    limit = 15_000
    ok(lgx("export", texts, "--params", limit, "--out", tmp_path / "small"))
    config = json.loads((tmp_path / "small/config.json").read_text())
    fitting = [row for row in rows if int(row["parameters"]) <= limit]
    best = max(fitting, key=lambda row: (float(row["val_nn_top1"]), -int(row["parameters"])))
    assert (config["num_hidden_layers"], config["hidden_size"]) == (int(best["depth"]), int(best["embed_dim"]))


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true"])
@pytest.mark.parametrize("reads_text", [True, False])
def test_without_training_a_size_of_whole_layers_is_the_cut(
    precision, reads_text, encoder, sentences, ancestor, tmp_path
):
    common = "--trainer.max_epochs=1", "--model.optimizer.lr=0", f"--trainer.precision={precision}", "--name=t"
    if reads_text:
        words = words_of_texts(encoder, sentences, tmp_path, "--data.batch_size=16", "--data.val_fraction=0.2")
    else:
        images = write_images(tmp_path / "shapes", {"train": 16, "val": 40, "test": 4})
        given = f"--model.ancestor={ancestor}", SIZES.replace("16", "8"), "--data.labels=false"
        words = arguments("fit", "Backbones", images, tmp_path, *given)
    ok(lgx(*words, *common))
    cut = [row for row in front_of(tmp_path / "test/t/seed0") if row["val_nn_top1_cut"]]
    assert [row["depth"] for row in cut] == ["1", "2", "3"]
    assert all(row["val_nn_top1_cut"] == row["val_nn_top1"] for row in cut)


def test_a_run_names_the_command_that_cuts_sizes_which_it_made_worse(encoder, sentences, tmp_path):
    given = "--trainer.max_epochs=2", "--model.optimizer.lr=1", "--data.val_fraction=0.2", "--data.batch_size=16"
    printed = ok(of_texts(encoder, sentences, tmp_path, *given)).out
    (line,) = [line for line in printed.splitlines() if "made depth" in line]
    *command, folder = shlex.split(line[line.index("lgx init") + 4 :])
    ok(lgx(*command, tmp_path / folder))
    assert json.loads((tmp_path / folder / "config.json").read_text())["num_hidden_layers"] == 3


def test_sentence_transformers_onnx_and_lgx_give_the_same_vectors_of_texts(texts, encoder, sentences, tmp_path):
    need_onnx()
    arch = "depth=2,embed_dim=16"
    for out in ("small", "small.onnx"):
        ok(lgx("export", texts, "--arch", arch, "--out", tmp_path / out))
    vectors = vectors_of(sentences, texts, tmp_path / "a.npy", "--arch", arch)
    assert vectors.shape == (201, 32)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(201))
    for source in ("small", "small.onnx"):
        words = ["--tokenizer", encoder, "--force"]
        again = vectors_of(sentences, tmp_path / source, tmp_path / "b.npy", *words)
        torch.testing.assert_close(again, vectors, rtol=1e-4, atol=1e-5)
    assert "gives vectors" in refusal(lgx("predict", sentences, "--model", tmp_path / "small.onnx", "--out", "p.csv"))
    library = pytest.importorskip("sentence_transformers", reason="pip install sentence-transformers")
    plain = library.SentenceTransformer(str(tmp_path / "small"), device="cpu")
    lines = sentences.read_text().splitlines()
    torch.testing.assert_close(torch.from_numpy(plain.encode(lines)), vectors, rtol=1e-4, atol=1e-5)


def test_the_ancestors_own_vectors_follow_its_pooling(encoder, sentences, tmp_path):
    first = shutil.copytree(encoder, tmp_path / "first")
    (first / "1_Pooling").mkdir()
    (first / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}')
    network = import_transformers().BertModel.from_pretrained(encoder).eval()
    words = import_transformers().AutoTokenizer.from_pretrained(encoder)(["the cat"], return_tensors="pt")
    tokens = network(**words).last_hidden_state[0]
    (tmp_path / "one.txt").write_text("the cat")
    for source, expected in ((encoder, tokens.mean(0)), (first, tokens[0])):
        vectors = vectors_of(tmp_path / "one.txt", source, tmp_path / f"{source.name}.npy")
        torch.testing.assert_close(vectors[0], normalize(expected, dim=0), rtol=1e-4, atol=1e-5)
    ok(of_texts(first, sentences, tmp_path, "--trainer.max_steps=1", "--name=c"))
    ok(lgx("export", tmp_path / "test/c/seed0", "--arch", "depth=2", "--out", tmp_path / "small"))
    assert read_space(tmp_path / "small").pooling == "cls"
    (first / "1_Pooling/config.json").write_text('{"pooling_mode": "max"}')
    assert "pools tokens by" in refusal(of_texts(first, sentences, tmp_path, "--name=d"))


def test_embeddings_of_tokens_stay_the_ancestors(texts, encoder):
    trained = Learngene.load(texts / "final.learngene.safetensors").tensors
    for name, tensor in load_pretrained(str(encoder)).tensors.items():
        if ".embeddings." in name:
            is_same = torch.equal(trained[name].sort(-1).values, tensor.sort(-1).values)  # in another order
            assert is_same == ("LayerNorm" not in name)


def test_features_of_texts_that_are_computed_once_are_the_ancestors(encoder, sentences):
    data = UnlabeledTexts(root=str(sentences), tokenizer=str(encoder), batch_size=8)
    data.setup("fit")
    teacher = Teacher.requested(TeacherRequest(str(encoder), data.task, features_only=True))

    def asked(inputs):
        return teacher.features_and_logits(inputs, inputs[:, 1].bool())[0]

    kept = KeptFeatures((batch.inputs, asked(batch.inputs)) for batch in data.reference_dataloader(1_000))
    assert len(kept) == len({tuple(ids) for ids in data.examples("train").rows["input_ids"]}) > 100
    for batch in data.train_dataloader():  # texts in another order, with other padding
        summary, tokens = kept.of(batch.inputs)
        wanted = asked(batch.inputs)
        torch.testing.assert_close(summary, wanted.summary, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(tokens, wanted.patches * batch.inputs[:, None, None, 1], rtol=1e-4, atol=1e-5)


def test_a_resumed_run_on_texts_ends_bit_for_bit_as_one_that_was_not_stopped(encoder, sentences, tmp_path):
    whole = "--data.batch_size=16", "--trainer.max_epochs=2", "--trainer.limit_val_batches=1", "--model.scheduler=null"
    ok(of_texts(encoder, sentences, tmp_path, *whole, "--name=whole"))
    ok(of_texts(encoder, sentences, tmp_path, *whole, "--name=parts", "--trainer.max_steps=4"))
    ok(of_texts(encoder, sentences, tmp_path, *whole, "--name=parts", "--ckpt_path=last"))
    ends = [load_file(tmp_path / f"test/{name}/seed0/final{SUFFIX}") for name in ("whole", "parts")]
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())


def test_timm_reads_an_encoder_of_images_and_the_map_beside_it(pictures, images, tmp_path):
    arch = "depth=2,embed_dim=8"
    ok(lgx("export", pictures, "--arch", arch, "--out", tmp_path / "small"))
    vectors = vectors_of(images / "val", tmp_path / "small", tmp_path / "a.npy")
    again = vectors_of(images / "val", pictures, tmp_path / "b.npy", "--arch", arch)
    torch.testing.assert_close(again, vectors)
    model = timm.create_model(f"local-dir:{tmp_path}/small", pretrained=True).eval()
    assert model.num_classes == 0
    form = timm.data.resolve_model_data_config(model)
    files = sorted((images / "val").glob("*/*.png"))
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) / 255 for file in files])
    mean, std = (torch.tensor(form[key])[:, None, None] for key in ("mean", "std"))
    dense = load_file(tmp_path / "small/2_Dense/model.safetensors")
    mapped = model((pixels - mean) / std) @ dense["linear.weight"].T + dense["linear.bias"]
    torch.testing.assert_close(normalize(mapped, dim=1), vectors, rtol=1e-4, atol=1e-5)
    state = api.load_family(pictures)[arch].state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(UserError, match="holds backbones"):
        load_pretrained(str(pictures / "final.learngene.safetensors"))
    ok(lgx("init", "--source", pictures, "--arch", "depth=2", "--head", 5, "--out", tmp_path / "start"))


@pytest.mark.parametrize("family", ["siglip", "eva02"])
def test_ancestors_of_other_families_give_encoders_of_images(family, images, tmp_path):
    size = "depth=1,embed_dim=16,num_heads=1"
    ok(lgx("init", "--arch", tiny(family).spec(), "--out", tmp_path / "ancestor"))
    given = [f"--model.ancestor={tmp_path}/ancestor", f'--model.sizes=["{size}"]', "--data.labels=false", "--name=run"]
    words = arguments("fit", "Backbones", images, tmp_path, *given, "--trainer.max_steps=2")
    ok(lgx(*(word for word in words if not word.startswith("--model.arch"))))
    _is_exported(tmp_path / "test/run/seed0", images / "val", size, tmp_path)


@pytest.mark.parametrize(("form", "tokenizer"), [("modernbert", "bert"), ("qwen3", "llama")])
def test_ancestors_of_other_families_give_encoders_of_texts(form, tokenizer, sentences, tmp_path):
    from tests.support.text_networks import plain_network

    ancestor = write_tokenizer(tmp_path / "ancestor", tokenizer)
    plain_network(form, vocab_size=320).save_pretrained(ancestor)
    size = "depth=1,embed_dim=24,num_heads=3" if form == "modernbert" else "depth=1,embed_dim=16,num_heads=2"
    ok(of_texts(ancestor, sentences, tmp_path, "--trainer.max_steps=2", f'--model.sizes=["{size}"]', "--name=run"))
    _is_exported(tmp_path / "test/run/seed0", sentences, size, tmp_path)


def _is_exported(run, files, size, folder):
    ok(lgx("export", run, "--arch", size, "--out", folder / "small"))
    vectors = vectors_of(files, folder / "small", folder / "a.npy")
    assert vectors.isfinite().all()
    torch.testing.assert_close(vectors_of(files, run, folder / "b.npy", "--arch", size), vectors)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (['--model.sizes=["depth=9"]'], "model.sizes: size depth=9"),
        (['--model.sizes=["embed_dim=64,num_heads=4"]'], "has 64 dimensions, but the learngene has 32"),
        (["--model.sizes=[ancestor]"], "needs no training"),
        (["--data.max_len=40"], "in texts of up to 24"),
        (["--data.root={empty}"], "has no rows"),
    ],
)
def test_wrong_input_ends_with_one_sentence(encoder, sentences, tmp_path, options, words):
    (tmp_path / "empty.txt").touch()
    given = [option.replace("{empty}", str(tmp_path / "empty.txt")) for option in options]
    assert words in refusal(of_texts(encoder, sentences, tmp_path, *given))


def test_the_ancestors_size_is_the_ancestor_itself_and_labels_are_refused(texts, pictures, images, ancestor, tmp_path):
    assert "use" in refusal(lgx("export", texts, "--arch", "ancestor", "--out", tmp_path / "out"))
    given = arguments("fit", "Backbones", images, tmp_path, f"--model.ancestor={ancestor}")
    assert "learns only from the ancestor" in refusal(lgx(*given))
    assert not (pictures / "front.csv").exists()  # nine examples have no ten neighbors


def test_the_ancestor_is_asked_in_updates_only_if_its_features_need_too_much_memory(
    encoder, sentences, tmp_path, monkeypatch
):
    short = "--trainer.max_steps=2", "--trainer.limit_val_batches=0"
    kept = ok(of_texts(encoder, sentences, tmp_path / "kept", *short))
    assert "different training texts, computed once" in kept.out
    planned = [plan(*words_of_texts(encoder, sentences, tmp_path / "kept", *short)[1:]).total_flops]
    monkeypatch.setattr("lgx.methods.nested.backbones.MOST_BYTES", 1)
    asked = ok(of_texts(encoder, sentences, tmp_path / "asked", *short))
    assert "computed once" not in asked.out
    planned.append(plan(*words_of_texts(encoder, sentences, tmp_path / "asked", *short)[1:]).total_flops)
    assert planned[0] < planned[1]
    flops = [json.loads(next(tmp_path.glob(f"{run}/**/summary.json")).read_text()) for run in ("kept", "asked")]
    assert flops[0]["flops"] < flops[1]["flops"]
    assert flops[0]["start_flops"] > flops[1]["start_flops"]


def test_encoders_of_every_size_are_one_file_on_the_hub(texts, encoder, tmp_path, monkeypatch):
    place, file, budget = "hf://lab/encoders", f"final{SUFFIX}", ("--params", "20k")
    with running_hub() as hub:
        use_hub(monkeypatch, hub.url, str(tmp_path / "hub"))
        commit = hub.add("lab/encoders", {file: (texts / file).read_bytes()})
        done = ok(lgx("export", place, *budget, "--tokenizer", encoder, "--out", tmp_path / "remote"))
        start = "--arch", "depth=2", "--head", 2, "--tokenizer", encoder, "--out", tmp_path / "start"
        ok(lgx("init", "--source", place, *start))
    assert f"{place}@{commit}/{file}" in done.err
    ok(lgx("export", texts, *budget, "--out", tmp_path / "local"))
    for part in ("model.safetensors", "2_Dense/model.safetensors", "tokenizer.json"):
        assert (tmp_path / "remote" / part).read_bytes() == (tmp_path / "local" / part).read_bytes()
