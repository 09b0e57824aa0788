"""GPT-2s are written as folders that plain transformers reads."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from lgx.artifacts.export import write_text_descendant
from lgx.artifacts.pretrained import load_pretrained
from lgx.hypernet.functional_forward import functional_forward
from tests.support.command_line import python
from tests.support.gpt2 import GPT2, hypernet, texts

PLAIN = """
import sys, torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, GPT2LMHeadModel
folder, given = sys.argv[1:]
given = load_file(given)
model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
ids = given["ids"]
logits = model(input_ids=ids, attention_mask=(ids != model.config.pad_token_id).long()).logits
torch.testing.assert_close(logits, given["logits"])
assert type(model).__name__ == "GPT2ForSequenceClassification" and model.config.id2label[1] == "right"
assert not any(name.split(".")[0] == "lgx" for name in sys.modules)
"""


@pytest.mark.slow
def test_an_exported_descendant_gives_the_same_logits_in_plain_transformers(tmp_path):
    net = hypernet(layout="aligned", vocab_size=101).eval()
    ids = texts(3, 12, 6)
    with torch.no_grad():
        parameters = net.predict(GPT2)
        model = GPT2.build()
        model.load_state_dict(parameters)
        save_file({"ids": ids, "logits": functional_forward(GPT2, parameters, ids)}, tmp_path / "given.safetensors")
    out = tmp_path / "descendant"
    for _ in range(2):  # a folder that lgx wrote may be replaced
        write_text_descendant(out, model, label_names=("left", "right", "other"), card={"task": "cola"})
    done = python("-c", PLAIN, out, tmp_path / "given.safetensors", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '| task | "cola" |' in (out / "README.md").read_text()
    write_text_descendant(tmp_path / "weights.safetensors", model)
    assert load_file(tmp_path / "weights.safetensors").keys() == parameters.keys()


@pytest.mark.parametrize("names", [("left", "right", "other"), None])
def test_a_folder_that_is_read_again_has_its_class_names(tmp_path, names):
    write_text_descendant(tmp_path / "text", GPT2.build(), label_names=names)
    assert load_pretrained(f"gpt2:{tmp_path / 'text'}").label_names == (names or ())
