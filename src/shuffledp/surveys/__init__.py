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

from shuffledp.surveys.answers import QuestionAnswer, SurveyAnswer
from shuffledp.surveys.parts import find_error
from shuffledp.surveys.plans import SurveyPlan, SurveyRow
from shuffledp.surveys.survey import PreparedSurvey, Question, Survey

__all__ = [
    "PreparedSurvey",
    "Question",
    "QuestionAnswer",
    "Survey",
    "SurveyAnswer",
    "SurveyPlan",
    "SurveyRow",
    "find_error",
]
