"""`python -m shuffledp`: the command line."""

from shuffledp.cli import app

if __name__ == "__main__":
    app(prog_name="shuffledp")
