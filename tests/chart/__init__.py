"""The Helm chart and the image recipes, looked at without a cluster."""
