"""Surveys: several questions to the same people, written down in one file, answered under one guarantee.

    epsilon = 1.0
    delta = 1e-8
    [questions.way]
    task = "histogram"
    column = "way"
    categories = ["car", "bicycle", "bus", "train", "other"]
    [questions.home_by_way]
    task = "count"
    column = "home"
    by = "way"

    survey = Survey.load("survey.toml")
    print(survey.plan(n=100_000))
    answer = ask("people.parquet", survey)
    answer["way"].estimate, answer.guarantee

Everybody answers every question. The parts of the survey are a bundle (`protocols.bundle`): their privacy losses add
up, and their budgets are found so that together they use up exactly what the survey promises. Without weights the
largest relative error is made small; a question with twice the weight of another one gets about half of its error.

One question is a survey of one (`Survey.of`): it has a protocol of its own, and no bundle. Both are asked in one way:
`asking` checks the budget, answers and charges; `prepared` counts the people and asks them. `files` reads a survey,
`plans` and `parts` find the protocol and the budget of each of several questions, and
`answer` shows what came out, with the `remarks` that belong beside it.
"""

from typing import TYPE_CHECKING

from shuffledp.core import load_later

if TYPE_CHECKING:
    from shuffledp.engine.columns import open_data
    from shuffledp.questions.answer import Answer, QuestionAnswer, SurveyAnswer
    from shuffledp.questions.asking import ask, open_spending
    from shuffledp.questions.bounds import Bounds
    from shuffledp.questions.parts import find_error
    from shuffledp.questions.people import plan_question
    from shuffledp.questions.plans import SurveyPlan, SurveyRow
    from shuffledp.questions.prepared import Part, Prepared, prepare
    from shuffledp.questions.question import AutoBounds, Question, take_auto
    from shuffledp.questions.remarks import (
        LEFT_OUT,
        SEEDED,
        TRUST,
        UNITS,
        describe_invalid,
        tell_dropped,
        tell_weaker,
    )
    from shuffledp.questions.survey import Source, Survey

__all__ = [
    "LEFT_OUT",
    "SEEDED",
    "TRUST",
    "UNITS",
    "Answer",
    "AutoBounds",
    "Bounds",
    "Part",
    "Prepared",
    "Question",
    "QuestionAnswer",
    "Source",
    "Survey",
    "SurveyAnswer",
    "SurveyPlan",
    "SurveyRow",
    "ask",
    "describe_invalid",
    "find_error",
    "open_data",
    "open_spending",
    "plan_question",
    "prepare",
    "take_auto",
    "tell_dropped",
    "tell_weaker",
]

if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "answer": "Answer QuestionAnswer SurveyAnswer",
            "asking": "ask open_spending",
            "bounds": "Bounds",
            "parts": "find_error",
            "people": "plan_question",
            "plans": "SurveyPlan SurveyRow",
            "prepared": "Part Prepared prepare",
            "question": "AutoBounds Question take_auto",
            "remarks": "LEFT_OUT SEEDED TRUST UNITS describe_invalid tell_dropped tell_weaker",
            "survey": "Source Survey open_data",
        },
    )
