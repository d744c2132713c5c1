"""The page: controls on the left, the stage on the right, and one handler between them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from secrets import token_hex
from typing import Any

import gradio as gr

from playground import __version__
from playground.analysis.bench import Bench
from playground.decoding.codec import JSON
from playground.errors import UserError
from playground.jobs import Jobs
from playground.lessons.lessons import fill_lessons
from playground.lessons.recordings import FOLDER as LESSONS
from playground.lessons.recordings import trace_path
from playground.lessons.writing import LANGUAGES
from playground.models.catalog import load_catalog
from playground.models.drafts import find_drafts
from playground.models.store import ModelStore
from playground.run import RunSpec, open_run
from playground.training.workshop import Workshop
from playground.ui import wire
from playground.ui.advise import make_advise_room
from playground.ui.api import Page, add_api
from playground.ui.components import PLOTLY, head, make_header, make_lessons, make_proof, make_stage
from playground.ui.deploy_panel import FOLLOW, make_deploy_panel
from playground.ui.fetching import fetch
from playground.ui.form import make_form, run_spec
from playground.ui.limits import Limits, read_limits
from playground.ui.link import read_link, write_link
from playground.ui.logs import log_to_stderr
from playground.ui.measure import make_measure_room
from playground.ui.measuring import Measuring
from playground.ui.model_controls import draft_choices, draft_table, family_choices, refusal, resident_table
from playground.ui.pass_cost import PassCost
from playground.ui.player import player
from playground.ui.proof import prove
from playground.ui.recordings import read_recording
from playground.ui.serving import app_kwargs
from playground.ui.theme import theme
from playground.ui.train import make_train_room
from playground.ui.visits import Visits
from playground.ui.zero import ON_ZERO_GPU, PROOF_SECONDS, gpu, preload, run_seconds

FIRST_TRACE = trace_path("first")
RUNS_AT_ONCE = 2  # of all visitors; the others wait in the order in which they came
THREADS = 200  # visitors who watch a job hold one each, and runs must find one

# JavaScript of the listener that starts a run: until its turn comes the stage says that it was asked for.
ASK = "(...form) => (window.dispatchEvent(new CustomEvent('stage', { detail: 'ask' })), form)"

# JavaScript of the listener that opens a file: the run that gives way to it was stopped, it did not fail.
LEAVE = "(file) => (window.dispatchEvent(new CustomEvent('stage', { detail: 'stop' })), file)"

# JavaScript of a listener that makes a query the whole address, and copies it where the browser allows that.
COPY = """(query) => {
    const link = query.startsWith('?') ? location.origin + location.pathname + query : query;
    navigator.clipboard?.writeText(link).catch(() => {});
    return link;
}"""


def launch(host: str | None = None, port: int | None = None) -> None:
    """Serve the page until interrupted. None leaves an address to Gradio's environment variables."""
    on_a_space = "SPACE_ID" in os.environ
    log_to_stderr()
    serve(build_page(ModelStore(), allow_local=not on_a_space), host, port)


def serve(page: Page, host: str | None = None, port: int | None = None, wait: bool = True) -> str:
    """Serve a built page and return its address; returns at once unless `wait`. UserError: it cannot be had."""
    try:
        _, address, _ = page.launch(
            server_name=host,
            server_port=port,
            prevent_thread_lock=not wait,
            max_threads=THREADS,
            theme=theme(),
            head=head(),
            allowed_paths=[str(PLOTLY), str(LESSONS / "traces")],
            max_file_size=f"{page.limits.upload}mb",
            app_kwargs=app_kwargs(page.health),
            footer_links=[],
            run_history=False,
            ssr_mode=False,
            pwa=False,
            share=False,
            show_error=True,
        )
    except (OSError, OverflowError) as error:  # in use, not ours, no such host, no port number
        raise UserError(
            f"The page cannot be served on {host or 'the usual address'}, port {port or 'the usual one'}: it is in "
            "use, or there is no such address here. Choose another port or host."
        ) from error
    return str(address)


def build_page(
    store: ModelStore, first_trace: Path = FIRST_TRACE, allow_local: bool = True, limits: Limits | None = None
) -> Page:
    """The page on the models of `store`. It opens with the recorded run `first_trace`, for which nothing is loaded.

    `allow_local` False refuses models from paths of this machine and servers, for a page that strangers may use.
    `limits` None are those of the environment. Raises UserError for a variable that holds none.
    """
    limits = limits or read_limits(allow_local)
    visits = Visits(lambda spec: open_run(spec, store, catalog, allow_local), limits)
    jobs = Jobs()
    catalog = preload(store, load_catalog()) if ON_ZERO_GPU else load_catalog()
    workshop = Workshop(store, catalog, jobs=jobs)
    catalog = workshop.catalog
    bench = Bench(store, catalog, allow_local)
    measuring, pass_cost = Measuring(bench, jobs=jobs), PassCost(bench, jobs)

    def race(spec: RunSpec) -> Iterator[str]:
        try:
            with visits.open(spec) as visit:
                yield from wire.stream(visit.run.trace, visit.live(), visit.id)
        except UserError as error:
            yield wire.notice("error", str(error))

    def proven(asked: Any) -> Iterator[str]:
        yield from prove(asked, lambda spec: open_run(spec, store, catalog, allow_local))

    race_on_gpu = gpu(race, run_seconds)
    prove_on_gpu = gpu(proven, lambda asked: PROOF_SECONDS)

    def start(request: gr.Request, *controls: Any) -> Iterator[str]:
        yield wire.notice("progress", "Getting the models ready …")
        try:
            spec = run_spec(*controls)
            with visits.admitted(spec, str(request.session_hash)):
                yield from race_on_gpu(spec)
        except UserError as error:
            yield wire.notice("error", str(error))

    def fetch_named(*named: str | None) -> Iterator[str]:
        names = [name.strip() for name in named if name and name.strip()]
        try:
            sources = [source for name in names for source in catalog.sources(name, allow_local)]
        except UserError as error:
            yield wire.notice("error", str(error))
            return
        yield from fetch(sources)

    def fitting(target: str | None) -> tuple[str, gr.Dropdown]:
        try:
            drafts = find_drafts(catalog, target or "", allow_local)
        except UserError as error:
            return refusal(error), gr.Dropdown()
        return draft_table(drafts), gr.Dropdown(choices=draft_choices(drafts))

    def in_memory() -> str:
        return resident_table(store.resident())

    def prove_step(asked: gr.EventData) -> Iterator[str]:
        yield from prove_on_gpu(asked._data)

    def families() -> gr.Dropdown:
        return gr.Dropdown(choices=family_choices(catalog))

    def restore(request: gr.Request) -> list[Any]:
        """The form as the page's address describes it, and a word on the stage."""
        nothing = [gr.skip()] * len(form.fields)
        try:
            values = read_link(request.query_params.multi_items())
        except UserError as error:
            return [*nothing, wire.notice("error", str(error))]
        if values is None:
            return [*nothing, gr.skip()]
        return [*values, wire.notice("done", "The link filled in the form. Press Run to make its run.")]

    def link(*controls: Any) -> tuple[object, object]:
        try:
            return gr.Textbox(write_link(controls), visible=True), gr.skip()
        except UserError as error:
            return gr.skip(), wire.notice("error", str(error))

    def health() -> dict[str, JSON]:
        """What whoever watches over the server wants to know."""
        return {
            "status": "ok",
            "version": __version__,
            "resident": [asdict(model) for model in store.resident()],
            "running": visits.going,
            "waiting": len(page._queue),
        }

    page = Page(title="Speculative Decoding Playground", fill_width=True, analytics_enabled=False)
    page.limits, page.health = limits, health
    with page:
        make_header(lent=ON_ZERO_GPU)
        with gr.Row(elem_id="desk"):
            with gr.Column(elem_id="controls", scale=0, min_width=320):
                form = make_form(catalog, allow_local)
            make_lessons({language: fill_lessons(language) for language in LANGUAGES}, LESSONS / "traces")
            with gr.Column(elem_id="stage-column", scale=1, min_width=0):
                stage = make_stage(recorded(first_trace) if first_trace.exists() else None, player)
                proof = make_proof()
                make_deploy_panel(catalog)
        page.load(None, js=FOLLOW)
        if not ON_ZERO_GPU:
            make_train_room(workshop, form, limits)
            make_measure_room(measuring, pass_cost, jobs, form)
        make_advise_room(measuring, catalog, form, allow_local)
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        running = form.run.click(
            start,
            form.fields,
            stage,
            concurrency_limit=RUNS_AT_ONCE,
            concurrency_id="runs",
            js=ASK,
            show_progress_on=form.queue,
            api_visibility="private",
        )
        models = form.models
        fetching = models.fetch.click(fetch_named, models.named, stage, **quiet)
        for going in (running, fetching):
            going.failure(None, js=_tell("fail"), api_visibility="private")
        stopped = form.stop.click(None, cancels=[running, fetching], js=_tell("stop"), api_visibility="private")
        for ended in (running, fetching, stopped):
            ended.then(in_memory, None, models.resident, **quiet)
        proof.submit(prove_step, None, proof, **quiet)
        page.load(in_memory, None, models.resident, **quiet)
        fetching.then(families, None, models.target, **quiet)
        models.find_drafts.click(fitting, models.target, [models.drafts, models.draft], **quiet)
        page.load(restore, None, [*form.fields, stage], **quiet)
        copying = form.copy.click(link, form.fields, [form.link, stage], **quiet)
        copying.then(None, form.link, form.link, js=COPY, api_visibility="private")
        for button, command in ((form.save, "save"), (form.export, "export")):
            button.click(None, js=_tell(command), api_visibility="private")
        add_api(visits, catalog, RUNS_AT_ONCE)
        form.open.upload(recorded, form.open, stage, cancels=[running], js=LEAVE, **quiet)
    return page


def recorded(file: str | Path) -> str:
    """A recorded run as a message for the stage; what is wrong with its file, as a notice."""
    try:
        return wire.whole(read_recording(Path(file)), token_hex(4))
    except UserError as error:
        return wire.notice("error", str(error))


def _tell(command: str) -> str:
    """JavaScript of a listener that hands `command` to the stage."""
    return f"() => window.dispatchEvent(new CustomEvent('stage', {{ detail: '{command}' }}))"
