"""The tally task: what a right answer is, its prompts, what is held out, and what a model of it learns from."""

import re
from random import Random

import pytest
import torch

from draftscope.engines.methods import METHODS
from draftscope.engines.models.bundled import tally
from draftscope.engines.models.bundled.language import MASK
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.experiments.problems import bundled_problems, problems_of
from training.block_diffusion import BLOCK, Noise, Recipe, token_id
from training.tally import batch, encoder

STORY = tally.Story(45, (tally.Event("Ann", "+", 2), tally.Event("Hal", "-", 3)))
TOLD = "then Ann adds two more which makes four seven now\nlater Hal took 3 away and left 44 overall\n"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("four seven", "four six"),  # the total
        ("four seven", "47"),  # spelled as the amount is
        ("makes", "made"),  # the tense of the verb before
        ("took", "takes"),
        ("adds two", "takes two"),  # what the event says
        ("two more", "two away"),
        ("Hal", "Ann"),
        ("now\n", "now \n"),
        ("overall\n", "overall\nlater Hal took 3 away and left 41 overall\n"),
        ("then Ann", "then also Ann"),
    ],
)
def test_the_parts_of_a_line_must_agree_and_totals_be_right(right: str, wrong: str) -> None:
    assert STORY.is_told_by(TOLD) and right in TOLD
    assert STORY.is_told_by(TOLD.replace("Ann adds", "Ann also brings").replace("which", "that"))
    assert not STORY.is_told_by(TOLD.replace(right, wrong, 1))


def test_what_is_generated_is_right_varied_and_fits() -> None:
    tokenizer, prompts = encoder(), set()
    for seed in range(200):
        story = tally.draw(Random(seed))
        text = story.write(Random(seed))
        tokens = tokenizer.encode(text).ids
        assert story.is_told_by(text) and not story.held_out
        assert tokenizer.decode(tokens) == text and len(tokens) <= tally.LINE * len(story.events)
        assert len(tokenizer.encode(f"{story.prompt}\n").ids) <= 32  # noise without a window
        assert all(tally.FIRST <= total <= tally.LAST for _, total in story.totals())
        prompts.add(STORY.write(Random(seed)))
    assert len(prompts) > 20


def test_training_never_meets_a_held_out_story_and_the_exam_asks_no_other() -> None:
    stories = tally.held_out_stories(600)
    assert len({story.prompt for story in stories}) == 600 and all(story.held_out for story in stories)
    assert {len(story.events) for story in stories} == set(range(tally.MIN_EVENTS, tally.MAX_EVENTS + 1))
    problems = bundled_problems("tally-target")
    assert list(problems.prompts) == [story.prompt for story in stories]
    first, second = problems_of("tally-target")[:2]
    assert problems.is_correct and problems.extract_answer
    assert problems.is_correct(first.solution, first.answer) and not problems.is_correct(second.solution, first.answer)
    assert problems.extract_answer(first.solution) == first.solution.splitlines()[-1]
    assert bundled_problems("text-target").prompts != problems.prompts


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("Ann +2 Hal -3", "tells no story; write a number and events, such as '49: Hal"),
        ("19: Ann +2 Hal +3 Ida +1 Jim +1 Kim +1", "a story cannot start from 19; start from 20 to 99"),
        ("45: Ann +2", "it has 1 events; give 5 to 12"),
        ("45: Zoe +2", "unknown name 'Zoe'; use one of Ann, Bob"),
        ("45: Ann +5", "amount +5 is out of range; use 1 to 4"),
        ("45: Ann two", "'Ann two' is not an event; write events as 'Ann +2 Bob -3'"),
        ("98: Ann +2 Hal -3 Ida +1 Jim +1 Kim +1", "the total gets to 100; keep it between 20 and 99"),
        ("\u0664\u0665: Ann +2", "tells no story"),
    ],
)
def test_an_impossible_prompt_is_one_sentence(prompt: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^prompt: {re.escape(problem)}") as refused:
        tally.read(prompt)
    assert str(refused.value).count(". ") == 0 and "\n" not in str(refused.value)


def test_a_prompt_may_be_written_loosely() -> None:
    assert tally.read(" 45 :ann + 2, HAL -3, Mia +1,Bob -4 kim +3 ").prompt == "45: Ann +2 Hal -3 Mia +1 Bob -4 Kim +3"
    assert tally.read(tally.EXAMPLE).prompt == tally.EXAMPLE and tally.read(tally.EXAMPLE).held_out


def test_a_batch_holds_whole_stories_and_noise_hides_answers_alone() -> None:
    rows, lengths = batch(7, 6, 0)
    again, _ = batch(7, 6, 0)
    assert torch.equal(rows, again) and rows.shape[1] % BLOCK == 0 and len(set(lengths.tolist())) == 1
    tokenizer = encoder()
    prompt, _, answer = tokenizer.decode(rows[0].tolist()).partition("\n")
    assert tally.read(prompt).is_told_by(answer)
    noised = Noise(Recipe("", 32, 1, 32), tokenizer)(rows, lengths, torch.Generator().manual_seed(0))
    learnt = noised.weight > 0
    shown = noised.ids[:, rows.shape[1] :]
    assert torch.equal(noised.target, rows) and torch.equal(learnt, shown == token_id(tokenizer, MASK))
    assert not learnt[torch.arange(rows.shape[1]) < lengths[:, None]].any() and learnt.any(1).all()


def test_the_shipped_models_read_stories() -> None:
    model = load_model("tally-target")
    assert model.token_space == load_model(MODELS["tally-target"].default_drafter).token_space
    with pytest.raises(ValueError, match=r"^prompt: a story cannot start from 5;"):
        model.make_task("5: Ann +2", METHODS["blockwise"].config())
