"""PSD, arXiv 2605.15609: parallel revealing and drafts of future steps."""

from benchmarks.claims.conclusion import Conclusion, against, difference, per_pass, per_second, solved, sweep

_OURS, _POLICY = "PSD (Confidence), depth 3", "Confidence"


def conclusions() -> list[Conclusion]:
    """All that can be read from the sweeps that ship."""
    depths = [sweep("psd")[f"PSD (Confidence), depth {depth}"] for depth in (1, 3, 7)]
    problems = sorted(set.intersection(*(set(rows) for rows in depths)))
    first, third, seventh = ([per_pass(rows[problem]) for problem in problems] for rows in depths)
    gained = [b - a for a, b in zip(first, third, strict=True)]
    more = [b - a for a, b in zip(third, seventh, strict=True)]
    return [
        Conclusion(
            "PSD",
            "Fig. 2 to 4, by passes",
            "Drafts of future steps add to what the policy reveals in a pass",
            [
                against("psd", _OURS, _POLICY, per_pass, "tokens a pass, blocks of 16"),
                against(
                    "psd",
                    "PSD (Confidence), block 32, tau 0.99",
                    "Confidence, block 32, threshold 0.99",
                    per_pass,
                    "blocks of 32, threshold 0.99",
                ),
            ],
        ),
        Conclusion(
            "PSD",
            "Fig. 2 to 4, by the clock",
            "Drafts of future steps make decoding faster",
            [against("psd", _OURS, _POLICY, per_second, "tokens a second, blocks of 16")],
        ),
        Conclusion(
            "PSD",
            "Fig. 2 to 4, accuracy",
            "PSD takes more tokens a pass than greedy decoding and loses no accuracy",
            [
                against("psd", _OURS, "Greedy", per_pass, "tokens a pass"),
                against("psd", _OURS, "Greedy", solved, "accuracy, with a margin of 0.05", margin=0.05),
            ],
        ),
        Conclusion(
            "PSD",
            "Section 4.2",
            "Most is gained by depth 3",
            [difference("tokens a pass, depth 1 to 3 over 3 to 7", gained, more)],
        ),
        Conclusion(
            "PSD",
            "Fig. 2 to 4, game",
            "No accuracy is lost against the policy",
            [
                against(
                    "snakes",
                    "PSD, tau 0.99",
                    "confidence, block 32, threshold 0.99",
                    solved,
                    "accuracy, game, with a margin of 0.05",
                    margin=0.05,
                )
            ],
        ),
    ]
