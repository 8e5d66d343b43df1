"""The model of certificates: the same on every machine, and the same in all forms."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from draftscope.certificates.known_model import (
    LETTERS,
    PROMPTS,
    Sampling,
    exact_logits,
    network,
    softmax,
    to_ids,
    weights,
    write_checkpoints,
)

HASHES = {
    "target": "7d93642b9c030722696e907c0f073d87ea30f59beb59030b41baead83c266b8b",
    "draft": "0998022b5054deffbcdb4135141c1f97d4cdf381311ec55ee96ef4628546d768",
}


@pytest.mark.parametrize("role", HASHES)
def test_the_weights_are_the_same_everywhere(role: str) -> None:
    digest = hashlib.sha256()
    for name, weight in sorted(weights(role).items()):
        digest.update(name.encode() + weight.tobytes())
    assert digest.hexdigest() == HASHES[role]


def test_the_folder_has_the_model_and_its_letters(tmp_path: Path) -> None:
    write_checkpoints(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "target", dtype=torch.float32)
    ids = torch.tensor([to_ids(PROMPTS[0])])
    assert torch.equal(model(ids).logits, network("target")(ids).logits)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "target")
    assert tokenizer(PROMPTS[1]).input_ids == to_ids(PROMPTS[1])
    assert tokenizer.decode(to_ids(PROMPTS[1])) == PROMPTS[1]
    sizes = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    assert max(sizes) < 310_000
    with pytest.raises(ValueError, match="'z' is not a letter of the certificate's model; serve that model"):
        to_ids("abz")


def test_exact_logits_are_those_before_each_token() -> None:
    rng = np.random.default_rng(0)
    texts = rng.integers(0, len(LETTERS), (6, 5))
    texts[3] = texts[0]
    prompts = [PROMPTS[row % 2] for row in range(6)]
    logits = exact_logits("target", prompts, texts)
    for row in (0, 3, 5):
        ids = torch.tensor([[*to_ids(prompts[row]), *texts[row][:3]]])
        expected = network("target", torch.float64)(ids).logits[0, -1].detach().numpy()
        np.testing.assert_allclose(logits[row, 3], expected, rtol=0, atol=1e-12)


def test_filters_before_and_after_the_temperature() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.15, 0.1]))
    np.testing.assert_allclose(Sampling(top_k=2).apply(logits, temperature_last=True), [2 / 3, 1 / 3, 0, 0])
    orders = {order: Sampling(2.0, top_p=0.7).apply(logits, temperature_last=order) > 0 for order in (True, False)}
    assert orders[True].sum() == 2  # 0.5 + 0.25
    assert orders[False].sum() == 3  # square roots: 0.37, 0.26, 0.20, 0.17
    np.testing.assert_allclose(Sampling(2.0).apply(logits, temperature_last=True), softmax(logits / 2))
    for fields, words in (
        ({"temperature": 0}, "use 0.2 to 10"),
        ({"top_k": 1}, "use 0, or 2"),
        ({"top_p": 0}, "top_p: 0"),
    ):
        with pytest.raises(ValueError, match=words):
            Sampling(**fields)
