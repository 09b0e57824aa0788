"""A value may name a file with configuration; a file that holds something else is named, and not quoted."""

import pytest

from tests.support.command_line import arguments, lgx

SECRETS = {
    "table": "root:x:0:0:root:/root:/bin/hunter2\ndaemon:x:1:1:hunter2:/usr/sbin\n",
    "line": "hunter2",
    "lines": "hunter2\nhunter2 again\n",
    "mapping": "user: me\ntoken: hunter2\n",
}
KEYS = [
    "config",
    "model",
    "data",
    "trainer",
    "checkpoint",
    "trainer.callbacks",
    "trainer.plugins",
    "trainer.logger",
]


@pytest.mark.parametrize("content", SECRETS)
@pytest.mark.parametrize("key", KEYS)
def test_the_content_of_a_foreign_file_is_not_shown(images, tmp_path, key, content):
    secret, config = tmp_path / "secret", tmp_path / "c.yaml"
    secret.write_text(SECRETS[content])
    given = arguments("fit", "Ancestor", images, tmp_path / "runs")
    words, group = f"{secret}", key.split(".")
    for part in reversed(group):
        words = f"{{{part}: {words}}}"
    config.write_text(words)
    for options in ([f"--config={config}"], [f"--{key}={secret}"]):
        result = lgx(*given, *options)
        assert result.code == 2
        assert "hunter2" not in result.err + result.out
        if content == "table":
            assert str(secret) in result.sentence or "invalid Union value" in result.sentence


def test_the_file_is_named_with_its_key(images, tmp_path):
    (tmp_path / "secret").write_text(SECRETS["table"])
    for key in ("data", "trainer", "model.optimizer", "trainer.callbacks"):
        result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", f"--{key}={tmp_path}/secret"))
        assert result.sentence.startswith(f"lgx fit: {key}: the file {tmp_path}/secret holds no configuration; give")


def test_a_value_may_still_name_a_file_with_configuration(images, tmp_path):
    (tmp_path / "data.yaml").write_text(f"class_path: ImageFolderData\ninit_args: {{root: {images}, img_size: 16}}\n")
    given = [word for word in arguments("fit", "Ancestor", images, tmp_path) if not word.startswith("--data")]
    result = lgx(*given, "--data", tmp_path / "data.yaml", "--print_config")
    assert result.code == 0, result.err
    assert "ImageFolderData" in result.out
