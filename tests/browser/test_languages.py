"""The page in another language: stage, form and lessons; the choice in the header keeps the address."""

from __future__ import annotations

from playwright.sync_api import Browser, Page

from tests.browser.conftest import Engine, OpenPage

LOG = "document.querySelector('.stage')?.view?.().log"


def wait_for_text(page: Page, selector: str, text: str) -> None:
    page.wait_for_selector(f'{selector}:has-text("{text}")', state="attached")


def test_stage_form_and_dropdowns_speak_portuguese(open_page: OpenPage):
    page = open_page(query="lang=pt-BR")
    assert page.evaluate("document.documentElement.lang") == "pt-BR"
    wait_for_text(page, ".lane-title", "Autorregressivo")
    wait_for_text(page, "#run", "Executar")
    wait_for_text(page, "#deploy", "Levar à produção")
    chosen = "document.querySelector('#models input').value"
    page.wait_for_function(f"{chosen} === 'Embutido · built-in · notebook, nesta máquina'")
    page.click("#other-models button")  # what is drawn later is translated too
    page.wait_for_selector("#heads [placeholder='o da própria família']")
    page.click("#models input")
    page.locator("[role=listbox] [role=option]").nth(1).click()
    page.wait_for_function(f"{chosen}.startsWith('SmolLM2') && {chosen}.includes('notebook')")


def test_the_choice_of_a_language_keeps_the_address_and_is_remembered(chromium: Browser, address: str):
    context = chromium.new_context(locale="en-US")
    page = context.new_page()
    page.goto(f"{address}?lesson=acceptance&step=2")
    wait_for_text(page, ".lessons h2", "Acceptance and the residual")
    page.get_by_label("Language").select_option("zh-CN")
    wait_for_text(page, ".lessons h2", "接受与残差")
    assert {"lang=zh-CN", "lesson=acceptance", "step=2"} <= set(page.url.split("?")[1].split("&"))
    page.goto(address)
    wait_for_text(page, "#run", "运行")
    context.close()


def test_the_visitors_run_outlives_the_choice_of_a_language(chromium: Browser, address: str, engine: Engine):
    context = chromium.new_context(locale="en-US", reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    page.wait_for_function("document.querySelector('.stage')?.view?.().log.run")
    page.click("#run")
    page.wait_for_function(f"({LOG}).live && ({LOG}).end === 'done'")
    page.get_by_label("Language").select_option("pt-BR")
    wait_for_text(page, "#run", "Executar")
    page.wait_for_function(f"({LOG})?.run === 'last-run'")
    assert page.evaluate(f"({LOG}).order.length") == len(engine.trace.order)
    context.close()
