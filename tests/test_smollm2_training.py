"""What smollm2's drafter learns from, and that it learns, on a tiny target."""

from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from support.llamas import greedy, llama

from engines.models.eagle import Eagle, EagleSize
from engines.models.lean import Linear
from training import smollm2_answers, smollm2_eagle
from training.loop import Preset, Run, muon
from training.smollm2_answers import PARTS, Writer, prompts, store
from training.smollm2_eagle import Answers, acceptance, inherit, train

ASKED = [[5, 9, 12, 5, 9], [7, 3], [40, 41, 42, 43, 44, 45, 46], [1, 2, 3], [9, 9, 9, 30], [60]]
TAPS, LONGEST = (0,), 20


def written(ends: tuple[int, ...], fewest: int = 0, seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    network = llama.__wrapped__(0)  # the writer takes its layers
    drawn = torch.arange(len(ASKED)) % 2 == 1
    generator = torch.Generator().manual_seed(seed)
    return Writer(network, ends, TAPS).write(ASKED, drawn, LONGEST, fewest, generator)


def test_answers_are_the_models_own_with_its_hidden_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2_answers, "HalfLinear", Linear)
    network = llama(0)
    usual = [greedy(network, asked, LONGEST) for asked in ASKED]
    end = usual[0][8]  # so that texts end at different places
    made = written((end,))
    for i, ((ids, states), asked) in enumerate(zip(made, ASKED, strict=True)):
        answer = ids.tolist()[len(asked) :]
        assert ids.tolist()[: len(asked)] == asked
        assert end not in answer[:-1] and (answer[-1] == end or len(answer) == LONGEST)
        if i % 2 == 0:
            assert answer == usual[i][: len(answer)]
        with torch.inference_mode():
            hidden = network.model(ids[None], output_hidden_states=True)
        wanted = torch.cat([hidden.hidden_states[1], hidden.last_hidden_state], -1)[0]
        torch.testing.assert_close(states.float(), wanted, rtol=2e-2, atol=2e-2)  # they are kept in bfloat16
    assert len({len(ids) for ids, _ in made}) > 2
    assert made[1][0].tolist() != [*ASKED[1], *usual[1]], "every second one is drawn"
    assert sum(
        ids[-1] == end or len(ids) == len(asked) + LONGEST
        for (ids, _), asked in zip(written((end,), 3), ASKED, strict=True)
    ) < len(ASKED)


def test_in_half_precision_hidden_states_are_close(monkeypatch: pytest.MonkeyPatch) -> None:
    network = llama(0)
    for ids, states in written(()):
        with torch.inference_mode():
            wanted = network.model(ids[None]).last_hidden_state[0]
        assert torch.nn.functional.cosine_similarity(states[:, 32:].float(), wanted).min() > 0.99


def test_prompts_differ_and_those_held_out_have_words_of_their_own() -> None:
    learnt, held = (list(islice(prompts(split), 3000 if not split else 150)) for split in (False, True))
    assert len({*learnt}) == 3000 and len({*held}) == 150 and not {*learnt} & {*held}
    assert not any("{" in prompt for prompt in (*learnt, *held))
    for kind in ("who", "topic", "task", "goal"):
        words = PARTS["words"][kind]
        assert not any(word in prompt for prompt in learnt for word in words[::10] if len(word) > 12)
        assert not any(word in prompt for prompt in held for word in words[1::10] if len(word) > 12)
    wrong = "Correct the spelling of this text and repeat it whole: "
    assert any(
        prompt.startswith(wrong) and not any(line[:20] in prompt for line in PARTS["sentences"]) for prompt in learnt
    )


def test_it_learns_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2_eagle, "FOLDER", tmp_path)
    monkeypatch.setattr(smollm2_eagle, "LIKELIEST", 16)
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    with pytest.raises(SystemExit, match=r"no answers to learn from; run: python -m training\.smollm2_answers"):
        Answers.of("held")
    for name, seeds in (("held-0000", (9,)), ("train-0000", (0, 1)), ("train-0001", (2, 3))):
        made = [text for seed in seeds for text in written((), seed=seed)]
        store(
            tmp_path / f"{name}.safetensors",
            made,
            [len(asked) for asked in ASKED] * len(seeds),
            torch.arange(len(made)) % 2 == 1,
        )
    answers, held = Answers.of("train"), Answers.of("held")
    batches = list(answers.batches(100, 0))
    assert sorted(number for batch in batches for number in batch) == list(range(24)) and len(batches) > 5
    ids, states, wanted = answers.batch([0, 1])
    assert ids.shape == states.shape[:2] == wanted.shape and states.shape[2] == 64
    assert wanted.sum(1).tolist() == [LONGEST, LONGEST], "the token behind the prompt is learnt, too"

    network: Any = llama(0)
    embedding = network.model.embed_tokens.weight.detach()
    made = drafter(network)
    frequent = answers.frequent(32, 64)
    assert frequent.tolist() == sorted({*frequent.tolist()}) and len(frequent) == 32
    made.ids.copy_(frequent)
    before = acceptance(made.eval(), embedding, answers, range(24))
    run = Run("tiny-eagle", made, muon(made, made, 5e-3), Preset(steps=150, batch=100, lr=5e-3))
    train(run, made, embedding, held, 0)
    after = acceptance(made, embedding, answers, range(24))
    for name in ("greedy_1", "greedy_2", "drawn_1"):  # a random target can only be learnt by heart
        assert after[f"acceptance_{name}"] > before[f"acceptance_{name}"] + 0.1, (before, after)
    again = drafter(network)
    more = Run("tiny-eagle", again, muon(again, again, 5e-3), Preset(steps=150, batch=100, lr=5e-3))
    more.resume(Namespace(at=None, fresh=False, from_exported=False))
    assert more.step == 150 and torch.equal(again.ids, made.ids)
    assert acceptance(again.eval(), embedding, answers, range(24)) == after


def drafter(network: Any) -> Eagle:
    torch.manual_seed(0)
    made = Eagle(network.config, EagleSize(TAPS, 24, 32))
    inherit(made, network)
    return made
