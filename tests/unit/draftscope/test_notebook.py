"""The player as a widget: traits without a browser."""

import pytest
import traitlets
from support import handmade

from draftscope.notebook import Player


def test_traits_start_at_the_end_and_tell_python_what_changes() -> None:
    run = handmade.scd()
    player = Player(handmade.ar(), run)
    heard: list[object] = []
    player.observe(lambda change: heard.append((change.name, change.new)), ["step", "position"])
    assert (player.step, player.position) == (len(run.steps), None)
    player.step, player.position = 1, 2
    assert heard == [("step", 1), ("position", 2)]
    assert repr(player) == "<Player at step 1, position 2>"
    assert Player(run, step=0).step == 0


def test_what_a_trace_does_not_have_is_refused_in_a_sentence() -> None:
    run = handmade.scd()
    player = Player(run)
    with pytest.raises(traitlets.TraitError, match=rf"^step: 99 is not allowed; use 0 to {len(run.steps)}\.$"):
        player.step = 99
    with pytest.raises(traitlets.TraitError, match=r"^position: 999 is not allowed; use 0 to "):
        Player(run, position=999)
    with pytest.raises(ValueError, match=r"^traces: the player needs at least one trace"):
        Player()
