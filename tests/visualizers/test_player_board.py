"""The board of a game beside its text: the rules as the player has them, and the token by which a run left them."""

from playwright.sync_api import Page
from support.handmade import make, step
from support.playing import chips, go, harness, plain, settle, show

from engines.models.bundled.snakes import LINE, Game, held_out_games
from traces.schema import Canvas, Legend, Trace
from training.snakes_data import encoder

JUMPS_IN_LINE_2 = Game(80, (3, 4, 1, 2, 3, 4, 5, 6))


def run(game: Game, answer: str, late: tuple[int, ...] = ()) -> Trace:
    """A run that writes an answer in two passes; the positions in `late` come second."""
    tokens = [*encoder().encode(answer).ids, 1]
    passes = [[i for i in range(len(tokens)) if (i in late) == second] for second in (False, True)]
    steps = [step(" ".join(f"{i}:{tokens[i]}=unmasked" for i in places), mode="diffusion") for places in passes]
    names = {i: encoder().id_to_token(i) or "" for i in range(encoder().get_vocab_size())}
    legend = Legend(vocabulary=names, ends=(1,))
    return make("blockwise", Canvas(kind="text", shape=(len(tokens),)), steps, prompt=game.prompt, legend=legend)


def sentence(page: Page) -> str:
    return page.locator(".ds-board .ds-words").inner_text()


def test_the_player_plays_by_the_rules_of_the_model(page: Page) -> None:
    harness(page)
    for game in held_out_games(30):
        page.evaluate("trace => player.load([trace])", plain(run(game, game.answer)))
        settle(page)
        assert sentence(page) == "Every token is as the rules have it.", game
    other = run(game, game.answer)
    page.evaluate("trace => player.load([{...trace, prompt: 'How many?'}])", plain(other))
    settle(page)
    assert page.locator(".ds-board:visible, .is-wrong").count() == 0


def test_the_first_wrong_token_is_marked_with_the_reason(page: Page) -> None:
    game = JUMPS_IN_LINE_2
    assert game.answer.splitlines()[1] == "4 to 87 jump 55"
    hasty = game.answer.replace("4 to 87 jump 55", "4 to 87 stay 87", 1)
    word = LINE + 4
    show(page, run(game, hasty, late=(word - 2, word - 1)))
    go(page, 2)
    assert chips(page, "is-wrong") == [word]
    words = sentence(page)
    assert "“stay” in line 2 is the first wrong token; a snake begins on 87, so the rules say “jump”." in words
    assert "revealed in pass 1, before what it depends on was known" in words
    assert words in str(page.locator(".ds-board canvas").get_attribute("aria-label"))
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    assert page.locator(".ds-board canvas").bounding_box()["width"] <= 390  # type: ignore[index]
