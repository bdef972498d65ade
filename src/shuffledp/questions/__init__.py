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

`files` reads a survey, `survey` says what it asks and asks it, `plans` (and `local`, where people trust nobody) finds
the protocol and the budget of each question, `answers` shows what came out.
"""

from typing import TYPE_CHECKING

from shuffledp.core.loading import load_later

if TYPE_CHECKING:
    from shuffledp.questions.answer import Answer
    from shuffledp.questions.answers import QuestionAnswer, SurveyAnswer
    from shuffledp.questions.asking import ask
    from shuffledp.questions.parts import find_error
    from shuffledp.questions.plans import SurveyPlan, SurveyRow
    from shuffledp.questions.request import (
        SEEDED,
        TRUST,
        Prepared,
        Request,
        check_result,
        describe_invalid,
        open_data,
        open_spending,
        tell_dropped,
        tell_weaker,
        use_grid,
        write_result,
    )
    from shuffledp.questions.source import Source
    from shuffledp.questions.survey import PreparedSurvey, Question, Survey

__all__ = [
    "SEEDED",
    "TRUST",
    "Answer",
    "Prepared",
    "PreparedSurvey",
    "Question",
    "QuestionAnswer",
    "Request",
    "Source",
    "Survey",
    "SurveyAnswer",
    "SurveyPlan",
    "SurveyRow",
    "ask",
    "check_result",
    "describe_invalid",
    "find_error",
    "open_data",
    "open_spending",
    "tell_dropped",
    "tell_weaker",
    "use_grid",
    "write_result",
]

if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "answer": "Answer",
            "answers": "QuestionAnswer SurveyAnswer",
            "asking": "ask",
            "parts": "find_error",
            "plans": "SurveyPlan SurveyRow",
            "request": "SEEDED TRUST Prepared Request check_result describe_invalid open_data open_spending "
            "tell_dropped tell_weaker use_grid write_result",
            "source": "Source",
            "survey": "PreparedSurvey Question Survey",
        },
    )
