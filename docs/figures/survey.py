"""The survey of docs/theory/survey.md, from the exact error formulas."""

import shuffledp as sdp


def table() -> str:
    """The table in Markdown."""
    lines = [
        "| data | family | protocol | RMSE of the sum | messages per user | sum grows like | mean grows like |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sdp.survey():
        sum_power, mean_power = round(row.n_exponent, 2) + 0.0, round(row.mean_exponent, 2)
        epsilon = f"epsilon^{row.epsilon_exponent:.2f}"
        lines.append(
            f"| {row.data} | {row.family} | {row.protocol} | {row.rmse:.4g} "
            f"| {row.messages_per_user:.4g} | n^{sum_power:.2f} {epsilon} "
            f"| n^{mean_power:.2f} {epsilon} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(table() + "\n")
