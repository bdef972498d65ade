"""The survey of docs/theory/survey.md, from the exact error formulas."""

from functools import cache, partial

import shuffledp as sdp

found = cache(partial(sdp.growth_table, honest=1))


def table() -> str:
    """The table in Markdown."""
    lines = [
        "| data | family | protocol | RMSE of the sum | messages per user | sum grows like | mean grows like |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found():
        sum_power, mean_power = round(row.n_exponent, 2) + 0.0, round(row.mean_exponent, 2)
        epsilon = f"epsilon^{row.epsilon_exponent:.2f}"
        lines.append(
            f"| {row.data} | {row.family} | {row.protocol} | {row.rmse:.4g} "
            f"| {row.messages_per_user:.4g} | n^{sum_power:.2f} {epsilon} "
            f"| n^{mean_power:.2f} {epsilon} |"
        )
    return "\n".join(lines)
