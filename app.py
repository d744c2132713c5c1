"""Entry for a Hugging Face Space, or `python app.py` anywhere."""

import sys

from playground.errors import UserError
from playground.ui.page import launch

if __name__ == "__main__":
    try:
        launch()
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
