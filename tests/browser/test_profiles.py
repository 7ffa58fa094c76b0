"""The options page with profiles: what the user sees chosen is what is asked for. A real hub, and no cluster."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from tests.hub.real_hub import ROOT, RealHub, no_cluster
from tests.hub.scripted_service import ScriptedService, me, problem

from .page import WIDE, running_browser

HOW_TO = ROOT / "docs/how-to/kubernetes-spawner.md"
#: Profiles of which only choices name a share; one of them is an amount for which there is no card.
ONLY_CHOICES = """
choices = {"none": {"display_name": "none"}, "odd": {"display_name": "odd", "gpus": "0.125"}}
size = {"display_name": "Size", "choices": choices}
c.KubeSpawner.profile_list = [{"display_name": "Sized", "profile_options": {"size": size}}]
"""
ALL_FREE = [
    {"gpus": gpus, "available": True, "starts_now": True, "sentence": f"{gpus} starts now."} for gpus in ("0.25", "0.5")
]


def in_the_how_to():
    """The list that the page shows to administrators."""
    blocks = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    return next(block for block in blocks if "profile_list" in block)


@pytest.fixture
def hub_with(tmp_path, monkeypatch):
    """Start a hub with these profiles; its service refuses every share, after it was asked for."""
    monkeypatch.setenv("KUBECONFIG", str(no_cluster(tmp_path)))
    spawner = (
        'c.JupyterHub.spawner_class = "jupyter_gq.hub.kubernetes.spawner.GQKubeSpawner"\n'
        'c.KubeSpawner.namespace = "hub"\n'
    )
    hubs = []

    def start(service, profiles):
        service.scripts["ann"].expect("GET me", me(choices=ALL_FREE))
        service.scripts["ann"].expect("POST tickets", problem("over_quota", "Asked and refused.", 409))
        hubs.append(RealHub(tmp_path, service, more=spawner + profiles))
        hubs[0].start()
        return hubs[0]

    with ScriptedService() as service:
        yield lambda profiles: (service, start(service, profiles))
        for hub in hubs:
            hub.end()


class OptionsPage:
    """What ann does on it."""

    def __init__(self, page, hub, service):
        self.page, self.hub, self.service = page, hub, service

    async def log_in(self):
        await self.page.goto(f"{self.hub.url}/hub/login?next=%2Fhub%2Fspawn%2Fann")
        await self.page.get_by_label("Username").fill("ann")
        await self.page.get_by_label("Password").fill("x")
        await self.page.get_by_role("button", name="Sign in").click()
        await expect(self.page.locator("#spawn_form")).to_be_visible()

    async def open(self):
        """Anew, as after a start."""
        await self.page.goto(f"{self.hub.url}/hub/spawn/ann")

    async def profile(self, name, **choices):
        await self.page.get_by_role("heading", name=name, exact=True).click()
        for option, choice in choices.items():
            await self.page.locator(f"select[name$='--{option}']:visible").select_option(choice)

    async def shows(self, chosen, possible):
        """Wait until this card is chosen, and these can be."""
        await expect(self.page.locator(f'input[name=gpus][value="{chosen}"]')).to_be_checked()
        for card in await self.page.locator("input[name=gpus]").all():
            enabled = await card.get_attribute("value") in possible
            await (expect(card).to_be_enabled() if enabled else expect(card).to_be_disabled())

    async def card(self, gpus):
        await self.page.locator(f'input[name=gpus][value="{gpus}"] + label').click()

    async def started(self):
        """Press Start; the share that the service was asked for."""
        await self.page.get_by_role("button", name="Start").click()
        await expect(self.page.get_by_text("Asked and refused.").first).to_be_visible()
        return self.service.of("ann", "POST tickets")[-1].body["gpus"]


def test_the_profiles_of_the_how_to_start_from_the_page_with_the_share_that_is_shown(hub_with, tmp_path):
    service, hub = hub_with(in_the_how_to())
    asyncio.run(walk_through_the_how_to(hub, service, tmp_path))


async def walk_through_the_how_to(hub, service, folder):
    """Each profile, then back to one that leaves the share open: it is as it was chosen, never a silent CPU."""
    async with running_browser() as browser:
        page = OptionsPage(await browser.new_page(viewport=WIDE), hub, service)
        await page.log_in()
        await page.shows("", {""})  # the default profile comes with no GPU
        await page.profile("As you like")
        await page.shows("0", {"0", "0.25", "0.5"})
        await page.card("0.5")
        await page.profile("Own image", gpu="half")
        await page.shows("", {""})
        label = page.page.locator("label", has_text="As the profile says")
        await expect(label).to_contain_text("0.5 GPU")
        await expect(label).to_contain_text("0.5 starts now.")
        await page.page.screenshot(path=folder / "half.png", full_page=True)
        assert await page.started() == "0.5"

        await page.open()
        await page.profile("As you like")
        await page.card("0.5")
        await page.profile("Small")
        await page.shows("", {""})
        await page.profile("As you like")
        await page.shows("0.5", {"0", "0.25", "0.5"})
        await page.page.screenshot(path=folder / "as-you-like.png", full_page=True)
        assert await page.started() == "0.5"


def test_a_choice_may_name_an_amount_that_has_no_card(hub_with):
    service, hub = hub_with(ONLY_CHOICES)
    asyncio.run(choose_the_odd_amount(hub, service))


async def choose_the_odd_amount(hub, service):
    async with running_browser() as browser:
        page = OptionsPage(await browser.new_page(viewport=WIDE), hub, service)
        await page.log_in()
        await page.shows("0", {"0", "0.25", "0.5"})
        await page.profile("Sized", size="odd")
        await page.shows("", {""})
        assert await page.started() == "0.125"
