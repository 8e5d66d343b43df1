"""SimSD, arXiv 2606.02544: a small diffusion language model drafts for a large one."""

from benchmarks.claims.conclusion import Conclusion, against, per_second, solved


def conclusions() -> list[Conclusion]:
    """All that can be read from the sweeps that ship."""
    pair = "text-pair"
    return [
        Conclusion(
            "Table 1",
            "Faster than one token a pass",
            [against(pair, "SimSD, gamma 8", "one token a pass", per_second, "tokens a second, blocks of 8")],
        ),
        Conclusion(
            "Table 1, against S2D2",
            "Faster than S2D2",
            [against("tally", "SimSD, block 8", "S2D2, always, block 8", per_second, "tokens a second, tally")],
        ),
        Conclusion(
            "Table 2",
            "Drafts do not cost accuracy, but gain some",
            [
                against(pair, "SimSD, gamma 8", "one token a pass", solved, "accuracy, maths, blocks of 8"),
                against("tally", "SimSD, gamma 8", "one token a pass, block 32", solved, "tally, blocks of 32"),
            ],
        ),
        Conclusion(
            "Table 3",
            "Accuracy rises with γ",
            [against(pair, "SimSD, gamma 8", "SimSD, gamma 1", solved, "accuracy, γ = 8 over 1")],
        ),
        Conclusion(
            "Table 4",
            "Without positions shared by a draft and its mask nothing is right",
            [against(pair, "SimSD, gamma 4", "SimSD, copies at places of their own", solved, "accuracy")],
        ),
    ]
