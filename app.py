"""Entry for a Hugging Face Space, or `python app.py` anywhere."""

from playground.ui.page import launch

if __name__ == "__main__":
    launch()
