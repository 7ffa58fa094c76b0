"""Tests of the browser that share one running Hub, each with notebooks and a browser of its own."""
