"""A live collection on the network: servers for the shuffler and the analyzer, devices that send, a rehearsal.

The web stack is the extra `serve`, and is imported when a server starts or something is sent.
"""

from shuffledp.live.pages import write_privacy
from shuffledp.live.results import show_page, show_text
from shuffledp.live.serve.analyzer import run_analyzer
from shuffledp.live.serve.client import Operator, fetch_document, read_link, send
from shuffledp.live.serve.folders import Home, Place, Role, find_port, play_roles
from shuffledp.live.serve.http import Certificate, choose_certificate, require_serve
from shuffledp.live.serve.operator import Desk, Planner, run_desk
from shuffledp.live.serve.rehearse import (
    Rehearsal,
    Sent,
    Simulated,
    read_places,
    rehearse,
    send_people,
    try_survey,
)
from shuffledp.live.serve.shuffler import run_shuffler

__all__ = [
    "Certificate",
    "Desk",
    "Home",
    "Operator",
    "Place",
    "Planner",
    "Rehearsal",
    "Role",
    "Sent",
    "Simulated",
    "choose_certificate",
    "fetch_document",
    "find_port",
    "play_roles",
    "read_link",
    "read_places",
    "rehearse",
    "require_serve",
    "run_analyzer",
    "run_desk",
    "run_shuffler",
    "send",
    "send_people",
    "show_page",
    "show_text",
    "try_survey",
    "write_privacy",
]
