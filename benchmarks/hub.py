"""A real hub of the benchmark's own, with the product's local configuration and an account that may make tokens."""

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from jupyter_gq.demo.processes import DemoHub, find_packaged_folder, free_port

_CONFIG = """\
c = get_config()
load_subconfig({base!r})
c.JupyterHub.services.append({{"name": "benchmark", "api_token": {token!r}}})
c.JupyterHub.load_roles.append({{"name": "benchmark", "services": ["benchmark"],
    "scopes": ["admin:users", "admin:servers", "tokens", "access:servers", "access:services", "custom:gq:admin"]}})
{extra}
"""


@dataclass(frozen=True, kw_only=True)
class BenchmarkHub:
    """A running hub and a client that may do everything in it."""

    hub: DemoHub
    admin: httpx.AsyncClient

    async def token_of(self, user: str) -> str:
        """Make the user if need be; return a token with all of the user's rights."""
        made = await self.admin.post(f"/hub/api/users/{user}")
        if made.status_code != httpx.codes.CONFLICT:
            made.raise_for_status()
        answer = await self.admin.post(f"/hub/api/users/{user}/tokens", json={"note": "benchmark"})
        answer.raise_for_status()
        return str(answer.json()["token"])


@contextlib.asynccontextmanager
async def running_hub(extra: str = "", users: tuple[str, ...] = ("ann",)) -> AsyncIterator[BenchmarkHub]:
    """Start the hub in a temporary folder; end it and all it started afterwards."""
    with tempfile.TemporaryDirectory(prefix="jupyter-gq-benchmark-") as name:
        folder, token = Path(name), secrets.token_hex(16)
        config = folder / "jupyterhub_config_benchmark.py"
        base = find_packaged_folder("hub_config") / "jupyterhub_config_local.py"
        config.write_text(_CONFIG.format(base=str(base), token=token, extra=extra))
        hub = DemoHub(folder=folder, port=free_port(), config=config, users=users)
        hub.start()
        try:
            await hub.wait_until_ready()
            headers = {"Authorization": f"token {token}"}
            async with httpx.AsyncClient(base_url=hub.url, headers=headers, timeout=60) as admin:
                yield BenchmarkHub(hub=hub, admin=admin)
        finally:
            await asyncio.shield(hub.stop())
