# The image of the service and the agent: `jupyter-gq service` and `jupyter-gq agent`.
# Build it from the root of the repository: docker build -f docker/service.Dockerfile -t <registry>/jupyter-gq/service:<version> .

# The wheel contains the lab extension, and building it needs Node.
FROM docker.io/library/node:24-bookworm-slim AS node

FROM docker.io/library/python:3.12-slim-bookworm AS wheel
COPY --from=node /usr/local /usr/local/node
ENV PATH=/usr/local/node/bin:$PATH
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY labextension labextension
COPY jupyter-config jupyter-config
COPY hub_config hub_config
COPY examples examples
COPY jupyter_gq jupyter_gq
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM docker.io/library/python:3.12-slim-bookworm
COPY --from=wheel /wheels /wheels
# Install the file, not the name: a package index may have another package of that name.
# hadolint ignore=DL3013
RUN wheel="$(ls /wheels/jupyter_gq-*.whl)" && pip install --no-cache-dir "${wheel}[kubernetes,postgresql]" && rm -rf /wheels
# The user is a number, so that Kubernetes can tell that it is not root.
USER 1000:1000
WORKDIR /tmp
ENTRYPOINT ["jupyter-gq"]
CMD ["service", "--config", "/etc/jupyter-gq/jupyterhub_config.py"]
