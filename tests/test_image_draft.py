"""What the training of the small drafter rests on: the sequences it learns from and what it promises."""

import torch

from engines.models.bundled.networks import Transformer, TransformerSize, condition_ids
from engines.models.bundled.patch_networks import PatchSize, PatchTransformer, condition_vectors
from engines.models.networked import hidden_states
from training import patch
from training.image_ar import inputs
from training.image_draft import compare, draw, inherit

LABELS = torch.tensor([[3, 1], [-1, -1]])


def tiny(layers: int) -> Transformer:
    torch.manual_seed(layers)
    network = Transformer(TransformerSize(width=32, layers=layers, heads=2, feed_forward=48)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)  # laws that differ
    return network


def test_sequences_come_with_the_laws_they_were_drawn_from() -> None:
    target = tiny(2)
    codes, logits = draw(target, LABELS, torch.Generator().manual_seed(0))
    again, _ = draw(target, LABELS, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        afresh = target(*inputs(target, codes, LABELS))[:, target.prefix - 1 :]
        divergence, variation, _ = compare(target, codes, LABELS, logits)
    assert torch.equal(codes, again)
    torch.testing.assert_close(logits.float(), afresh, rtol=1e-3, atol=1e-3)  # they are kept in half precision
    assert divergence.abs().max() < 1e-3 and variation.max() < 1e-2
    assert 100 < len(codes.unique()) < 1024


def test_a_drafter_as_deep_as_the_target_starts_out_equal_to_it() -> None:
    target, same, small = tiny(2), tiny(2), tiny(1)
    with torch.no_grad():
        same.head.weight.add_(1)
    inherit(same, target)
    inherit(small, target)
    codes, logits = draw(target, LABELS, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert compare(same, codes, LABELS, logits)[1].max() < 1e-2
        assert compare(small, codes, LABELS, logits)[1].mean() > 0.05


def test_a_patch_transformer_starts_out_equal_to_the_one_it_is_copied_from() -> None:
    codes, grown = tiny(1), PatchTransformer(PatchSize("", TransformerSize(32, 3, 2, 48), 16, 1)).eval()
    patch.inherit(grown, codes)
    positions = torch.arange(2).expand(2, -1)
    with torch.inference_mode():
        embedded = codes.backbone.embed_tokens(condition_ids(LABELS)) + codes.position(positions)
        wanted = hidden_states(codes.backbone, positions, None, None, inputs_embeds=embedded)
        torch.testing.assert_close(grown(condition_vectors(LABELS), positions), wanted)
