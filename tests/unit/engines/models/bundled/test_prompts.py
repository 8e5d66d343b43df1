"""Prompts of the bundled models."""

import pytest

from draftscope.engines.models.bundled.prompts import PROMPTS, Prompt, PromptError, parse_prompt


def test_prompts_are_read_with_synonyms() -> None:
    assert str(parse_prompt("An OWL in the woods!")) == "an owl in the forest"
    assert str(parse_prompt("a bunny by the ocean")) == "a rabbit by the sea"
    assert parse_prompt("a baby chick") == Prompt(thing=parse_prompt("chick").thing)
    assert all(parse_prompt(str(prompt)) == prompt for prompt in [*PROMPTS, Prompt(scene=2)])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("an owl on the moon", "'moon' cannot be drawn"),
        ("", "it is empty"),
        ("on the", "it is empty"),
        ("an owl and a cat at night", "it names two things, 'owl' and 'cat'; keep one"),
        ("<img src=x onerror=alert(1)>", "cannot be drawn"),
    ],
)
def test_prompts_that_cannot_be_drawn_say_what_can(text: str, problem: str) -> None:
    with pytest.raises(PromptError) as caught:
        parse_prompt(text)
    assert problem in str(caught.value)
    if "keep one" not in problem:
        assert "scene: meadow" in str(caught.value)
