"""The schemas of the events that this server emits to the browser."""

from pathlib import Path

SERVICE_ID = "https://schema.jupyter-gq.org/service/v1"
SERVICE_FILE = Path(__file__).parent / "service-v1.yaml"
