"""How the page looks where Gradio draws it."""

from __future__ import annotations

import gradio as gr
from gradio.themes.utils.fonts import LocalFont


def theme() -> gr.themes.Base:
    """Calm greys: colour is kept for what the tokens became. Fonts come with Gradio, nothing is fetched."""
    base = gr.themes.Base(
        primary_hue=gr.themes.colors.zinc,
        neutral_hue=gr.themes.colors.zinc,
        radius_size=gr.themes.sizes.radius_sm,
        text_size=gr.themes.sizes.text_sm,
        spacing_size=gr.themes.sizes.spacing_sm,
        # The semibold file that comes with Gradio lacks most letters; the bold one has them all.
        font=(LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"),
        font_mono=(LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace"),
    )
    return base.set(
        body_text_color_subdued="#5b5b63",
        body_text_color_subdued_dark="#a5a5ad",
        body_background_fill="#fafaf9",
        body_background_fill_dark="#131316",
        block_background_fill="#ffffff",
        block_background_fill_dark="#1b1b1f",
        input_background_fill="#f6f6f5",
        input_background_fill_dark="#242429",
        button_primary_background_fill="#18181b",
        button_primary_background_fill_hover="#3f3f46",
        button_primary_background_fill_dark="#f4f4f5",
        button_primary_background_fill_hover_dark="#d4d4d8",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#18181b",
    )
