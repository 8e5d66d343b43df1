"""Which method to take, in one sentence."""

from collections.abc import Sequence
from typing import Final

from demo.naming import method_title
from traces.tradeoffs import Tradeoff, best

KINDS: Final = {"picture": "pictures", "video": "videos", "text": "text", "continuous": "continuous tokens"}
"""What is decoded, as a sentence says it."""


def answer(among: Sequence[Tradeoff], kind: str, most_lost: float, batch: int) -> str:
    """What to use for one kind: the fastest measured that loses no more than allowed, or that nothing pays."""
    name = KINDS.get(kind, kind)
    those = [one for one in among if one.kind == kind]
    if not those:
        return f"Nothing was measured for {name} under these conditions, in batches of {batch}."
    one = best(those, most_lost)
    if one is not None:
        return f"Use {called(one)} for {name}: {speed_in_words(one)}, {quality_in_words(one)}{_kept(one)}."
    fastest = max(those, key=lambda each: each.speed)
    allowed = f"a loss of {most_lost:g} percentage points" if most_lost else "the noise of the quality"
    if fastest.faster:
        loses = f"{called(fastest)} is, {speed_in_words(fastest)}, {quality_in_words(fastest)}"
        return f"Nothing here is faster than ordinary decoding for {name} within {allowed}: {loses}."
    return (
        f"Nothing here is faster than ordinary decoding for {name} within {allowed}: "
        f"the fastest, {called(fastest)}, comes to {speed_in_words(fastest)}."
    )


def called(one: Tradeoff) -> str:
    """Method and setting."""
    title = method_title(one.method)
    setting = one.setting.removeprefix(f"{title}, ")
    return f"{title} with {setting}"


def speed_in_words(one: Tradeoff) -> str:
    """Times as fast, with its quartiles; a prediction says so."""
    spread = ""
    if one.speed_low is not None and one.speed_high is not None:
        spread = f" ({_times(one.speed_low)} to {_times(one.speed_high)})"
    return f"{_times(one.speed)} ×{spread}{' as predicted' if one.predicted else ''}"


def quality_in_words(one: Tradeoff) -> str:
    """What happens to quality, honest about what is not known."""
    if one.change is None:
        return "quality not measured, and nothing lost by construction"
    error = "" if one.error is None else f" ± {one.error:.1f}"
    measured = f"{one.change:+.1f}{error} points"
    if one.within_noise:
        return f"quality within noise ({measured})"
    return f"quality {'higher' if one.change > 0 else 'lower'} by more than noise ({measured})"


def _kept(one: Tradeoff) -> str:
    return ", exact" if one.exact else ", though not the model's own distribution"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2f}"
