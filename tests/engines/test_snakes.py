"""The game on which haste costs: its rules, its prompts, what is held out, and what a model of it learns from."""

import re
from random import Random

import pytest
import torch

from benchmarks._problems import exam
from engines.methods import METHODS
from engines.models.bundled import snakes
from engines.models.bundled.snakes import JUMPS, Game, draw, held_out_games, read
from engines.models.catalog import MODELS, load_model
from training import snakes_data
from training.block_diffusion import BLOCK, MASK, Noise, Recipe, token_id
from visualizers.player import script


def test_a_game_follows_the_rules_square_by_square() -> None:
    told = Game(97, (5, 6, 6, 2, 1, 1, 1, 1)).answer.splitlines()
    assert told[:3] == ["5 to 12 stay 12", "6 to 18 stay 18", "6 to 24 stay 24"]  # 97 + 5 goes round
    assert Game(83, (4, 1)).answer == "4 to 87 jump 55\n1 to 56 stay 56\n"
    assert not set(JUMPS) & set(JUMPS.values())
    assert all(snakes.FIRST <= square <= snakes.LAST for jump in JUMPS.items() for square in jump)


def test_training_never_meets_a_held_out_game_and_the_exam_asks_no_other() -> None:
    games = held_out_games(600)
    assert len({game.prompt for game in games}) == 600 and all(game.held_out for game in games)
    assert {len(game.rolls) for game in games} == set(range(snakes.FEWEST, snakes.MOST + 1))
    assert not any(draw(Random(seed)).held_out for seed in range(300))
    asked = exam("snakes-target")
    assert [one.question for one in asked.problems] == [game.prompt for game in games]
    right = asked.problems[0].answer
    assert asked.solved(right, right) and not asked.solved(right + " ", right) and not asked.solved(right[:-1], right)
    assert asked.given(right) == right.splitlines()[-1]
    assert exam("text-target").problems != asked.problems


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("from 9 roll 634131613656", "there is no square 9; start from one of 10 to 99"),
        ("from 70 roll 634", "3 rolls are too few; give 8 to 24"),
        ("from 70 roll " + "1" * 25, "25 rolls are too many"),
        ("from 70 roll 6341316736", "a die does not show 7; roll numbers from 1 to 6"),
        ("from \u0667\u0660 roll 634131613656", "asks for no game"),
        ("How many pages?", "asks for no game; write a square and rolls of a die, such as 'from 70 roll"),
    ],
)
def test_an_impossible_prompt_is_one_sentence(prompt: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"^prompt: {re.escape(told)}") as refused:
        read(prompt)
    assert str(refused.value).count(". ") == 0 and "\n" not in str(refused.value)


def test_a_prompt_may_be_written_loosely() -> None:
    assert read(" From 70  rolls 6, 3 4 1,3 1 6 1 ").prompt == "from 70 roll 63413161"
    assert snakes.read(snakes.EXAMPLE).prompt == snakes.EXAMPLE


def test_a_batch_holds_whole_games_of_one_length_and_noise_hides_answers_alone() -> None:
    rows, lengths = snakes_data.batch(7, 6, 0)
    again, _ = snakes_data.batch(7, 6, 0)
    assert torch.equal(rows, again) and rows.shape[1] % BLOCK == 0 and len(set(lengths.tolist())) == 1
    tokenizer = snakes_data.encoder()
    prompt, _, answer = tokenizer.decode(rows[0].tolist()).partition("\n")
    assert answer == read(prompt).answer
    noised = Noise(Recipe("", 32, 1, 32), tokenizer)(rows, lengths, torch.Generator().manual_seed(0))
    learnt = noised.weight > 0
    shown = noised.ids[:, rows.shape[1] :]
    assert torch.equal(noised.target, rows) and torch.equal(learnt, shown == token_id(tokenizer, MASK))
    assert not learnt[torch.arange(rows.shape[1]) < lengths[:, None]].any() and learnt.any(1).all()


def test_the_player_has_the_same_rules() -> None:
    table = re.search(r"const SNAKES = \{ first: (\d+), last: (\d+), line: (\d+), jumps: \{(.*?)\} \}", script())
    assert table and tuple(map(int, table.groups()[:3])) == (snakes.FIRST, snakes.LAST, snakes.LINE)
    assert {int(a): int(b) for a, b in re.findall(r"(\d+): (\d+)", table[4])} == JUMPS


def test_the_shipped_models_read_and_spell_games() -> None:
    model = load_model("snakes-target")
    assert model.tokens == load_model(MODELS["snakes-target"].small).tokens
    with pytest.raises(ValueError, match=r"^prompt: there is no square 5;"):
        model.make_task("from 5 roll 63413161", METHODS["blockwise"].config())
