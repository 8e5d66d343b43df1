"""Train the drafter of smollm2 on its own answers, which `python -m training.smollm2_answers` writes.

    python -m training.smollm2_eagle [--preset cpu|gpu] [--minutes M]

The drafter learns the target's distribution of every token of an answer, in the text as far as it goes and after
drafts of its own, as it drafts (training-time test, EAGLE-3, arXiv 2503.01840): STEPS drafts, weighted by DECAY to the
power of those before. Of the target's distribution over the tokens that can be drafted, the likeliest LIKELIEST count.
It starts as the last layer of the target. Shards that are written meanwhile are read when a run goes on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from draftscope.engines.models.download import download_dir
from draftscope.engines.models.eagle import Eagle, EagleSize
from training.smollm2_answers import FOLDER, MODEL
from training.trainer import Preset, Run, device, export, muon, parse

PRESETS: Final = {
    "cpu": Preset(steps=8_000, batch=1_400, lr=2e-3, linear=0.6),
    "gpu": Preset(steps=4_000, batch=11_200, lr=3e-3, linear=0.6),
}
"""Tokens per batch, padding included."""
STEPS, DECAY, LIKELIEST = 4, 0.8, 48
LOOK, _FEW = 200, 24
"""Steps between measurements of acceptance, and the held-out answers used."""
_SORTED: Final = 256
"""Answers that are put in order of length, so that those of a batch need little padding."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers stored in shards; hidden states are read on access."""

    shards: Sequence[Any]
    spans: Sequence[tuple[int, int, int, int]]
    """Per answer: its shard, its start and end in the shard, and the number of prompt tokens."""
    drawn: Sequence[bool]
    """Whether an answer was drawn, or has the likeliest tokens."""

    @classmethod
    def of(cls, split: str) -> "Answers":
        """Those of training or held out.

        Raises:
            SystemExit: where there are none yet.
        """
        files = sorted(FOLDER.glob(f"{split}-*.safetensors"))
        shards: list[Any] = [safe_open(file, framework="pt") for file in files]
        if not files:
            raise SystemExit(f"{FOLDER} has no answers to learn from; run: python -m training.smollm2_answers")
        spans, drawn = list[tuple[int, int, int, int]](), list[bool]()
        for number, shard in enumerate(shards):
            ends = [0, *shard.get_tensor("lengths").cumsum(0).tolist()]
            prompts = shard.get_tensor("prompts").tolist()
            spans += [(number, *part, prompt) for part, prompt in zip(pairwise(ends), prompts, strict=True)]
            drawn += shard.get_tensor("drawn").tolist()
        return cls(shards, spans, drawn)

    def ids(self, number: int) -> Tensor:
        """Ids [N] of an answer and its prompt."""
        shard, begin, end, _ = self.spans[number]
        return self.shards[shard].get_slice("ids")[begin:end].long()  # type: ignore[no-any-return]

    def batch(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids [B, T], the target's hidden states [B, T, S], and the mask [B, T] of positions to learn."""
        spans = [self.spans[i] for i in numbers]
        ids = torch.nn.utils.rnn.pad_sequence([self.ids(i) for i in numbers], batch_first=True)
        states = torch.nn.utils.rnn.pad_sequence(
            [self.shards[shard].get_slice("states")[begin:end] for shard, begin, end, _ in spans], batch_first=True
        )
        positions = torch.arange(ids.shape[1])
        lengths = torch.tensor([[end - begin] for _, begin, end, _ in spans])
        prompts = torch.tensor([[prompt] for *_, prompt in spans])
        wanted = (positions >= prompts - 1) & (positions < lengths - 1)
        return ids.to(device()), states.to(device()).float(), wanted.to(device())

    def frequent(self, count: int, vocabulary: int) -> Tensor:
        """The most frequent tokens of the answers, rising; ties go to the lowest id, which merges are frequent in."""
        tokens = torch.cat([self.ids(i)[self.spans[i][3] :] for i in range(len(self.spans))])
        counts = torch.bincount(tokens, minlength=vocabulary) - torch.arange(vocabulary) / (2 * vocabulary)
        return counts.topk(count).indices.sort().values

    def batches(self, max_tokens: int, seed: int) -> Iterator[list[int]]:
        """Return the answers in shuffled batches of at most `most` tokens."""
        generator, parts = torch.Generator().manual_seed(seed), list[list[int]]()
        sizes = [end - begin for _, begin, end, _ in self.spans]
        for part in torch.randperm(len(sizes), generator=generator).split(_SORTED):
            batch = list[int]()
            for number in sorted(part.tolist(), key=sizes.__getitem__):
                if batch and (len(batch) + 1) * sizes[number] > max_tokens:
                    parts.append(batch)
                    batch = []
                batch.append(number)
            parts.append(batch)
        return (parts[i] for i in torch.randperm(len(parts), generator=generator).tolist())


def inherit(network: Eagle, target: Any) -> None:
    """Start from the last layer of the target, whose own share is damped, on its last hidden states."""
    width, layer, new_layer = target.config.hidden_size, target.model.layers[-1], network.layer
    largest = layer.mlp.down_proj.weight.norm(dim=0).topk(network.size.feed_forward).indices
    with torch.no_grad():
        network.fuse.weight.normal_(0, 0.01)[:, -width:] = torch.eye(width)
        for name in ("q_proj", "k_proj", "v_proj"):
            weight = getattr(new_layer.self_attn, name).weight
            weight.normal_(0, 0.3 * weight.shape[1] ** -0.5)[:, width:] = getattr(layer.self_attn, name).weight
        new_layer.self_attn.o_proj.weight.copy_(0.3 * layer.self_attn.o_proj.weight)
        new_layer.mlp.gate_proj.weight.copy_(layer.mlp.gate_proj.weight[largest])
        new_layer.mlp.up_proj.weight.copy_(layer.mlp.up_proj.weight[largest])
        new_layer.mlp.down_proj.weight.copy_(0.3 * layer.mlp.down_proj.weight[:, largest])
        new_layer.input_layernorm.weight[width:] = layer.input_layernorm.weight
        new_layer.post_attention_layernorm.weight.copy_(layer.post_attention_layernorm.weight)
        network.norm.weight.copy_(target.model.norm.weight)


def unrolled(network: Eagle, embedded: Tensor, states: Tensor, steps: int) -> Iterator[Tensor]:
    """States [B, T, W] after 0 .. steps - 1 drafts: after j, the one at t predicts the token at t + 2 + j.

    It sees the target's states up to t, and its own after them.

    Args:
        network: The drafter.
        embedded: The embeddings [B, T + steps, W] of the text.
        states: The target's hidden states [B, T, S].
        steps: How many drafts.
    """
    layer, config = network.layer, network.config
    attention, epsilon, T = layer.self_attn, config.rms_norm_eps, states.shape[1]
    rotary = LlamaRotaryEmbedding(config).to(states.device)
    unit = partial(F.rms_norm, normalized_shape=(config.hidden_size,), eps=epsilon)
    fused = network.fuse(unit(states.unflatten(-1, (len(network.size.taps) + 1, -1))).flatten(-2))
    later = torch.ones(T, T, dtype=torch.bool, device=states.device).triu(1)
    keys, values = list[Tensor](), list[Tensor]()
    for j in range(steps):
        inputs = torch.cat([unit(embedded[:, j + 1 : j + 1 + T]), unit(fused)], -1) * layer.input_layernorm.weight
        q, k, v = (
            product(inputs).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for product in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = apply_rotary_pos_emb(q, k, *rotary(q, torch.arange(j, j + T, device=q.device)[None]))
        keys.append(k.repeat_interleave(attention.num_key_value_groups, 1))
        values.append(v.repeat_interleave(attention.num_key_value_groups, 1))
        scores = (q @ keys[0].transpose(-1, -2)).masked_fill(later, -torch.inf)
        shifted = [(q * each).sum(-1, keepdim=True) for each in keys[1:]]
        weights = (torch.cat([scores, *shifted], -1).float() * attention.scaling).softmax(-1).to(v.dtype)
        seen = weights[..., :T] @ values[0]
        for i, each in enumerate(values[1:]):
            seen = seen + weights[..., T + i, None] * each
        fused = fused + attention.o_proj(seen.transpose(1, 2).flatten(-2))
        fused = fused + layer.mlp(layer.post_attention_layernorm(fused))
        yield fused


def drafts(network: Eagle, embedding: Tensor, batch: tuple[Tensor, Tensor, Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, after 0 .. STEPS - 1 drafts, logits [N, R] of the next token and the mask [B, T] of learned positions."""
    ids, states, wanted = batch
    embedded = F.embedding(F.pad(ids, (0, STEPS)), embedding)
    rows, T = embedding[network.ids.long()], ids.shape[1]
    with torch.autocast(device().type, torch.bfloat16, enabled=network.training):
        for j, logits in enumerate(unrolled(network, embedded, states, STEPS)):
            judged = wanted.clone()
            judged[:, : j + 1] = False
            yield (network.norm(logits[:, : T - 1 - j][judged[:, j + 1 :]]) @ rows.T).float(), judged


def loss_of(network: Eagle, embedding: Tensor, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Cross entropy with the target's likeliest tokens, over all drafts."""
    _, states, wanted = batch
    rows = embedding[network.ids.long()]
    best, index = (states[..., -embedding.shape[1] :][wanted].bfloat16() @ rows.T.bfloat16()).float().topk(LIKELIEST)
    positions = torch.full(wanted.shape, -1, device=wanted.device).masked_scatter(
        wanted, torch.arange(len(best), device=wanted.device)
    )
    loss = torch.zeros((), device=wanted.device)
    for j, (logits, judged) in enumerate(drafts(network, embedding, batch)):
        position = positions[judged]
        p, likely = best[position].softmax(-1), index[position]
        loss = loss + DECAY**j * (logits.logsumexp(-1) - (p * logits.gather(-1, likely)).sum(-1)).mean()
    return loss


@torch.no_grad()
def acceptance(network: Eagle, embedding: Tensor, held_out: Answers, numbers: Sequence[int]) -> dict[str, float]:
    """Return the acceptance rate per draft position, for argmax drafts and at temperature 1."""
    totals = torch.zeros(2, STEPS, 2)
    for number in numbers:
        batch, drawn = held_out.batch([number]), int(held_out.drawn[number])
        p = (batch[1][..., -embedding.shape[1] :] @ embedding.T).softmax(-1)
        for j, (logits, judged) in enumerate(drafts(network, embedding, batch)):
            q, target_probs = logits.softmax(-1), p[judged]
            same = network.ids[q.argmax(-1)] == target_probs.argmax(-1)
            both = torch.minimum(q, target_probs[:, network.ids.long()]).sum(-1) if drawn else same.float()
            totals[drawn, j] += torch.tensor([both.sum().item(), len(both)])
    rates = totals[..., 0] / totals[..., 1].clamp(min=1)
    return {
        f"acceptance_{name}_{position}": round(float(rate), 4)
        for name, rates_by_position in zip(("greedy", "drawn"), rates, strict=True)
        for position, rate in enumerate(rates_by_position, 1)
    }


def train(run: Run, network: Eagle, embedding: Tensor, held_out: Answers, seed: int) -> None:
    """Train until the budget is used up."""
    answers = Answers.of("train")
    plan, begun, epoch = list[list[int]](), 0, 0
    for step in run.steps():
        while step - begun >= len(plan):
            begun, plan, epoch = begun + len(plan), list(answers.batches(run.preset.batch, seed + epoch)), epoch + 1
        if step % LOOK == 0:
            sample = range(0, len(held_out.spans), max(1, len(held_out.spans) // _FEW))
            print(f"step {step}, epoch {epoch}: {acceptance(network.eval(), embedding, held_out, sample)}", flush=True)
        run.update(loss_of(network.train(), embedding, answers.batch(plan[step - begun])))
    network.eval()


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    target: Any = AutoModelForCausalLM.from_pretrained(download_dir(MODEL), dtype=torch.float32).eval()
    network = Eagle(target.config, EagleSize())
    inherit(network, target)
    network.ids.copy_(Answers.of("train").frequent(len(network.ids), target.config.vocab_size))
    network, embedding = network.to(device()), target.model.embed_tokens.weight.detach().to(device())
    del target
    run, held_out = Run(f"{MODEL}-eagle", network, muon(network, network, preset.lr), preset), Answers.of("held")
    run.carry_out(options, lambda: train(run, network, embedding, held_out, options.seed))
    metrics: dict[str, Any] = acceptance(network, embedding, held_out, range(len(held_out.spans)))
    metrics["held_out_answers"] = len(held_out.spans)
    title = "Drafter of smollm2 that reads its hidden states"
    export(run, title, metrics, options, "answers of smollm2 (Apache-2.0) to prompts of this project")


if __name__ == "__main__":
    main()
