"""What the server adds to Gradio's: /healthz for those who watch over it, and headers that browsers heed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.decoding.codec import JSON

HUB = "https://huggingface.co"
POLICY = {
    # Gradio writes scripts and styles into its page and compiles the behaviour of components from text.
    "default-src": "'self' 'unsafe-inline' 'unsafe-eval' data: blob:",
    "connect-src": f"'self' data: blob: {HUB}",  # on a Space, Gradio asks the Hub about it
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": f"'self' {HUB} https://*.huggingface.co https://*.hf.space",  # a Space is shown in a frame
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # links hold prompts
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

Health = Callable[[], dict[str, JSON]]


class SecurityHeaders:
    """Middleware that gives every answer HEADERS, where it has none of that name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with)


def app_kwargs(health: Health) -> dict[str, Any]:
    """What makes Gradio's app answer /healthz with `health` as JSON, and send the headers."""

    def healthz(request: Request) -> JSONResponse:
        return JSONResponse(health(), headers={"Cache-Control": "no-store"})

    return {"routes": [Route("/healthz", healthz)], "middleware": [Middleware(SecurityHeaders)]}
